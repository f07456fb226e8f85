"""Requests at random times, for simulations in continuous time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .arrival_source import Arrival, Observation
from .errors import InvalidTypeError, InvalidValueError
from .validation import LARGEST_TOKEN_COUNT, as_integer


@dataclass
class TimedArrivals:
    """Requests at fixed real-valued times: an arrival source with nothing adaptive.

    Attributes
    ----------
    arrivals : in order of time.
    memory_limit : capacity M, tokens.
    name : label for tables, or None.
    """

    arrivals: Sequence[Arrival]
    memory_limit: int
    name: str | None = None
    adaptive: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._position = 0

    def reset(self, rng: np.random.Generator) -> None:
        """Begin again; the times are fixed."""
        self._position = 0

    def next_arrival(self) -> float | None:
        """The time of the first request not yet released."""
        if self._position == len(self.arrivals):
            return None
        return self.arrivals[self._position].time

    def release(self, now: float) -> Sequence[Arrival]:
        """The requests that arrive by ``now``."""
        begin = self._position
        while self._position < len(self.arrivals) and self.arrivals[self._position].time <= now:
            self._position += 1
        return self.arrivals[begin : self._position]

    def observe(self, observation: Observation) -> None:
        """Ignore it: the arrivals are fixed."""


def poisson_arrivals(
    types: Sequence[tuple[float, int, int]],
    horizon: float,
    *,
    memory_limit: int,
    rng: np.random.Generator,
) -> TimedArrivals:
    """Independent Poisson processes on [0, horizon], one for each type.

    Parameters
    ----------
    types : (arrival rate, prompt length, output length) of each type: requests a second, tokens.
    horizon : seconds.
    memory_limit : capacity M of the machine, tokens.
    rng : source of all randomness.

    Raises
    ------
    InvalidValueError, InvalidTypeError: no types, a rate or horizon that is not a positive number,
        a length that is not a whole number in its range.
    """
    if not types:
        raise InvalidValueError(None, "types", [], "is empty: at least one is needed")
    lengths: list[tuple[int, int]] = []
    rates: list[float] = []
    for j, (rate, prompt, output) in enumerate(types):
        rates.append(_positive(rate, f"type {j}", "arrival_rate"))
        lengths.append(
            (
                as_integer(
                    prompt, f"type {j}", "prompt_length", minimum=1, maximum=LARGEST_TOKEN_COUNT
                ),
                as_integer(
                    output, f"type {j}", "output_length", minimum=1, maximum=LARGEST_TOKEN_COUNT
                ),
            )
        )
    horizon = _positive(horizon, None, "horizon")
    # Given their number, the points of a Poisson process are independent and uniform.
    total = sum(rates)
    count = int(rng.poisson(total * horizon))
    times = np.sort(rng.uniform(0.0, horizon, count))
    kinds = rng.choice(len(rates), size=count, p=np.array(rates) / total)
    arrivals = [
        Arrival(time, *lengths[kind])
        for time, kind in zip(times.tolist(), kinds.tolist(), strict=True)
    ]
    return TimedArrivals(arrivals, memory_limit)


def _positive(value: float, owner: str | None, field_name: str) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise InvalidTypeError(owner, field_name, value, "is not a number")
    if not math.isfinite(value) or value <= 0:
        raise InvalidValueError(owner, field_name, float(value), "is not a positive number")
    return float(value)
