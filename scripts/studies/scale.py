"""A row of the benchmark at scale, measured in the calling process."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.outcomes.result import relative_waiting_gap
from instances import Instance, generate, load

DEFAULT_SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
METHODS = ("scale", "rows", "solve")
"""`hindsight.relax` by prices and by rows, and `hindsight.solve`."""

ARRIVALS_A_ROUND = 0.1
"""About the rate at which M = 16,492 serves the mix: queues build up and last."""


LONG_PROMPT, LONG_OUTPUT, LONG_MEMORY_LIMIT = 1035, 1522, 80_000
VARIATION = 0.5
"""Mean lengths of requests that answer at length, tokens, and their coefficient of variation."""

LOAD = 0.9
"""Volume that arrives in a round, in M."""


def _at_once(n: int, seed: int) -> Instance:
    return _drawn(n=n, seed=seed)


def _arriving(n: int, seed: int) -> Instance:
    return _drawn(n=n, seed=seed, arrival_rate=ARRIVALS_A_ROUND)


def _long_at_once(n: int, seed: int) -> Instance:
    return _long(n, seed, arriving=False)


def _long_arriving(n: int, seed: int) -> Instance:
    return _long(n, seed, arriving=True)


def _long(n: int, seed: int, *, arriving: bool) -> Instance:
    rng = np.random.default_rng(seed)
    variance = np.log1p(VARIATION**2)
    prompts, outputs = (
        np.maximum(1, np.rint(rng.lognormal(np.log(mean) - variance / 2, variance**0.5, n)))
        .astype(np.int64)
        .tolist()
        for mean in (LONG_PROMPT, LONG_OUTPUT)
    )
    at_once = Instance.from_arrays(prompts, outputs, memory_limit=LONG_MEMORY_LIMIT)
    if not arriving:
        return at_once
    between = float(at_once.volumes.mean()) / (LOAD * LONG_MEMORY_LIMIT)
    arrivals = np.floor(np.cumsum(rng.exponential(between, n))).astype(np.int64)
    return Instance.from_arrays(
        prompts, outputs, arrivals - arrivals[0], memory_limit=LONG_MEMORY_LIMIT
    )


def _drawn(**settings: Any) -> Instance:
    instance = generate("mixed-long-short", **settings)
    assert isinstance(instance, Instance)
    return instance


FAMILIES: dict[str, Callable[[int, int], Instance]] = {
    "at-once": _at_once,
    "arriving": _arriving,
    "long-at-once": _long_at_once,
    "long-arriving": _long_arriving,
}
"""By number of requests and seed: synthetic mixes of long and short requests, 1:4, and log-normal
lengths whose outputs are longer than their prompts."""


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """Cost and result of a computation.

    Attributes
    ----------
    family, requests, method : str, int, str
        What was measured.
    seconds, cpu_seconds : float
        Wall clock and processor time, the drawing of the instance left out.
    peak_bytes : int
        Largest resident set of the process.
    certified_bound, objective, gap
        The certified bound and the value of the relaxation, or the certified bound, the schedule's
        latency and the gap of a solve; None where there is none.
    waiting_bound, waiting, waiting_gap
        What of bound and objective exceeds the output lengths, and the gap of a solve's.
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
    objective: float | None
    gap: float | None
    waiting_bound: int | None
    waiting: float | None
    waiting_gap: float | None
    ended: str

    @classmethod
    def failed(cls, family: str, requests: int, method: str, why: str) -> ScaleRow:
        """A row of a process that did not come to an end."""
        return cls(family, requests, method, 0.0, 0.0, 0, *(None,) * 6, why)

    @property
    def finished(self) -> bool:
        """Tell whether there is a value."""
        return self.objective is not None

    @property
    def met_its_end(self) -> bool:
        """Tell whether it ran to its end; a time that was cut off does not show its growth."""
        return self.ended in ("tolerance", "optimal", "proof")

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``ScaleRow(**row.as_dict())`` is the row again."""
        return asdict(self)


def measure(
    family: str,
    requests: int,
    method: str,
    tolerance: float,
    time_limit: float,
    seed: int,
    threads: int = 1,
) -> ScaleRow:
    """Relax or solve one instance of a family, or of a file; what fails becomes a row that says so.

    ``family`` may be the path of an instance file; ``requests`` and ``seed`` are then ignored.
    """
    from hindsight.compile_kernels import compile_kernels
    from hindsight.outcomes.errors import SolverError
    from hindsight.relaxation import relax
    from hindsight.solver import solve

    if family in FAMILIES:
        instance = FAMILIES[family](requests, seed)
    else:
        instance, family = load(family), Path(family).stem
    # Loops are compiled, or loaded, outside the clock.
    compile_kernels()
    wall, cpu = time.perf_counter(), time.process_time()
    ended = "out of memory"
    numbers: tuple[int, float] | None = None
    gaps: tuple[float, float] | tuple[None, None] = (None, None)
    try:
        if method == "solve":
            solved = solve(instance, time_limit, threads, seed, method="beams")
            numbers = solved.certified_lower_bound, float(solved.upper_bound)
            gaps = solved.gap, relative_waiting_gap(instance, *numbers)
            ended = solved.stop_reason
        else:
            found = relax(
                instance,
                method="lp" if method == "rows" else "lagrangian",
                tolerance=tolerance,
                time_limit=time_limit,
                threads=threads,
            )
            numbers = found.certified_bound, found.objective
            ended = found.stop_reason
    except SolverError as error:
        ended = str(error)
    except MemoryError:
        pass
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    certified_bound, objective = numbers or (None, None)
    outputs = instance.total_output_length
    waits = None if numbers is None else (max(0, numbers[0] - outputs), numbers[1] - outputs)
    return ScaleRow(
        family=family,
        requests=len(instance),
        method=method,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_bytes=_peak_bytes(),
        certified_bound=certified_bound,
        objective=objective,
        gap=gaps[0],
        waiting_bound=None if waits is None else waits[0],
        waiting=None if waits is None else waits[1],
        waiting_gap=gaps[1],
        ended=ended,
    )


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024
