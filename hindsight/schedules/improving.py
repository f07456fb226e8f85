"""Cycles of moves that improve one schedule in turn, each round of them longer than the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from .cycles import CycleSettings, RuinAndRecreate

BLOCKS = (
    CycleSettings(6, 1.0, second=0.0),
    CycleSettings(12, 2.0, hot=0.3, cold=0.02, blink=0.0, second=0.0),
    CycleSettings(20, 10.0, hot=0.05, cold=0.01, blink=0.0, second=0.0),
    CycleSettings(8, 1.0, hot=0.03, second=0.0),
)
"""Cycles in blocks."""

FLEET = tuple(
    CycleSettings(12, 2.0, hot=hot, cold=cold, second=0.0)
    for hot, cold in ((0.3, 0.05), (0.3, 0.02), (0.1, 0.01))
)
"""Cycles on several machines."""

ON_TIME = tuple(
    CycleSettings(most, reach, weight, hot, 0.01, math.inf, second=0.0, tried=8)
    for most, reach, weight, hot in (
        (6, 1.0, 0.0, 0.3),
        (12, 2.0, 0.5, 0.15),
        (20, 10.0, 0.0, 0.3),
        (8, 1.0, 0.25, 0.08),
    )
)
"""Cycles for as many requests as possible by their last start."""

FIRST_MOVES, MOST_MOVES = 50, 12_800
"""Moves per request of the first round of cycles, and of the longest."""

PATIENCE = 3
"""Rounds of cycles without a better schedule after which a search without a time limit ends."""


def improved(
    search: RuinAndRecreate,
    cycles: tuple[CycleSettings, ...],
    must_stop: Callable[[], bool],
    patience: float = PATIENCE,
) -> Iterator[RuinAndRecreate]:
    """Run cycles in turn; yield the search after each one that found a better schedule.

    Parameters
    ----------
    search : RuinAndRecreate
        A search with a schedule.
    cycles : tuple[CycleSettings, ...]
        The cycles of a round; each round has twice as many moves as the one before.
    must_stop : Callable[[], bool]
        Polled a few times a second.
    patience : float, default `PATIENCE`
        Rounds without a better schedule after which the search ends.
    """
    share, fruitless = FIRST_MOVES, 0
    while fruitless < patience and search.cost > 0 and not search.is_too_long:
        fruitless += 1
        for settings in cycles:
            if must_stop():
                return
            cost = search.cost
            if settings.weight == 0 or search.has_prices:
                search.cycle(settings, share * len(search.starts), must_stop)
            search.offer(*search.shift_left(search.starts, search.machines, must_stop))
            if search.cost < cost:
                fruitless = 0
                yield search
        share = min(2 * share, MOST_MOVES)
