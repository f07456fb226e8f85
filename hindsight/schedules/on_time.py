"""Cycles of moves for as many requests as possible by their last start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from .cycles import CycleSettings, RuinAndRecreate

CYCLES = tuple(
    CycleSettings(most, reach, weight, hot, 0.01, math.inf, second=0.0, tried=8)
    for most, reach, weight, hot in (
        (6, 1.0, 0.0, 0.3),
        (12, 2.0, 0.5, 0.15),
        (20, 10.0, 0.0, 0.3),
        (8, 1.0, 0.25, 0.08),
    )
)
"""Cycles of a round."""

FIRST_MOVES, MOST_MOVES = 50, 12_800
"""Moves per request of the cycles of the first round, and of the longest."""

ROUNDS_WITHOUT_GAIN = 3
"""Rounds of cycles without a better schedule after which a search on time ends."""


def improved(
    search: RuinAndRecreate, must_stop: Callable[[], bool], *, patient: bool
) -> Iterator[RuinAndRecreate]:
    """Run cycles for requests on time; yield the search after each that found a better schedule.

    Each round of cycles has twice as many moves as the one before. Unless ``patient``, the search
    ends after `ROUNDS_WITHOUT_GAIN`.
    """
    share, fruitless = FIRST_MOVES, 0
    while (patient or fruitless < ROUNDS_WITHOUT_GAIN) and search.cost and not search.is_too_long:
        fruitless += 1
        for settings in CYCLES:
            if must_stop():
                return
            cost = search.cost
            if settings.weight == 0 or search.has_prices:
                search.cycle(settings, share * len(search.starts), must_stop)
            if search.cost < cost:
                fruitless = 0
                yield search
        share = min(2 * share, MOST_MOVES)
