"""One row of the benchmark of relaxations at scale, measured in the process that asks."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from instances import Instance, generate

DEFAULT_SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
METHODS = ("scale", "rows")

ARRIVALS_A_ROUND = 0.1
"""About the rate at which M = 16,492 serves the mix: queues build up and last."""


def _at_once(n: int, seed: int) -> Instance:
    return _drawn(n=n, seed=seed)


def _arriving(n: int, seed: int) -> Instance:
    return _drawn(n=n, seed=seed, arrival_rate=ARRIVALS_A_ROUND)


def _drawn(**settings: Any) -> Instance:
    instance = generate("mixed-long-short", **settings)
    assert isinstance(instance, Instance)
    return instance


FAMILIES: dict[str, Callable[[int, int], Instance]] = {"at-once": _at_once, "arriving": _arriving}
"""Synthetic mixes of long and short requests, 1:4, by number of requests and seed."""


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """What one relaxation took and gave.

    Attributes
    ----------
    family, requests, method : str, int, str
        What was measured.
    seconds, cpu_seconds : float
        Wall clock and processor time, the drawing of the instance left out.
    peak_bytes : int
        Largest resident set of the process.
    certified_bound, dual_value, objective, gap
        Of the relaxation; None where there is none.
    ended : str
        Its stop reason, or what went wrong.
    """

    family: str
    requests: int
    method: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    certified_bound: int | None
    dual_value: float | None
    objective: float | None
    gap: float | None
    ended: str

    @classmethod
    def failed(cls, family: str, requests: int, method: str, why: str) -> ScaleRow:
        """A row of a process that did not come to an end."""
        return cls(family, requests, method, 0.0, 0.0, 0, None, None, None, None, why)

    @property
    def finished(self) -> bool:
        """Whether there is a value."""
        return self.objective is not None

    @property
    def met_its_end(self) -> bool:
        """Whether it took as long as it needed: cut off, its time says nothing of its growth."""
        return self.ended in ("tolerance", "optimal")

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``ScaleRow(**row.as_dict())`` is the row again."""
        return asdict(self)


def measure(
    family: str, requests: int, method: str, tolerance: float, time_limit: float, seed: int
) -> ScaleRow:
    """Relax one instance of a family; what fails becomes a row that says so."""
    from hindsight.outcomes.errors import SolverError
    from hindsight.relaxation.methods import relax

    instance = FAMILIES[family](requests, seed)
    # Loops are compiled, or loaded, outside the clock.
    relax(FAMILIES[family](3, seed), method="scale", time_limit=60)
    wall, cpu = time.perf_counter(), time.process_time()
    ended, found = "out of memory", None
    try:
        found = relax(
            instance,
            method="rows" if method == "rows" else "scale",
            tolerance=tolerance,
            time_limit=time_limit,
            threads=1,
        )
        ended = found.stop_reason
    except SolverError as error:
        ended = str(error)
    except MemoryError:
        pass
    return ScaleRow(
        family=family,
        requests=requests,
        method=method,
        seconds=time.perf_counter() - wall,
        cpu_seconds=time.process_time() - cpu,
        peak_bytes=_peak_bytes(),
        certified_bound=None if found is None else found.certified_bound,
        dual_value=None if found is None else found.dual_value,
        objective=None if found is None else found.objective,
        gap=None if found is None else found.gap,
        ended=ended,
    )


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024
