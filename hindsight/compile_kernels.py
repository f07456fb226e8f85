"""Compile the loops of this package ahead of time: ``python -m hindsight.compile_kernels``.

numba compiles each loop on its first call and stores the machine code next to the sources for later
processes. All loops together take about a minute on one core. A compilation cannot be interrupted,
so a first solve may exceed a short time limit. To avoid that, run this once after installation.
"""

from __future__ import annotations

from instances import Instance, ServiceLevel, Workload
from instances.batch_time import AffineTime

from .exact.states import StateSearch
from .outcomes.goals import OnTime, Preemption
from .outcomes.interval import Interval
from .outcomes.problem import Problem
from .relaxation import relax
from .rounds.graphs import run_graphs_once
from .rounds.openings import open_latency
from .rounds.small_memory import SmallMemory
from .rounds.stops import Preemptive
from .runtime.clock import Clock
from .runtime.compilation import Heard, heard_compiling, nothing_plain
from .runtime.search import Search
from .schedules.improving import Improvement
from .schedules.lists import best_list_schedule
from .solver import solve


def _instance() -> Instance:
    return Instance.from_arrays([3, 1, 2, 2], [1, 3, 2, 2], [0, 0, 1, 1], memory_limit=5)


def _workload() -> Workload:
    return Workload.from_instance(_instance(), AffineTime(0.5, 0.25))


def _opened(preemption: Preemption = "never") -> Interval:
    interval = Interval(Problem(_instance(), preemption=preemption))
    open_latency(interval, None)
    return interval


def _prices() -> None:
    SmallMemory(_opened(), Search()).run_each_part_once()


def _states() -> None:
    # The arrays grow only when more than 4,096 states of one epoch are kept.
    StateSearch(_instance().columns, room=1).run()


def _graphs() -> None:
    instance = _instance()
    run_graphs_once(instance, best_list_schedule(instance).total_latency)


def _schedules() -> None:
    Improvement(_opened()).run_each_part_once()


def _relaxation() -> None:
    relax(_instance(), method="lagrangian", tolerance=1e-7)


def _preemption() -> None:
    Preemptive(_opened("keep"), Search()).run_each_part_once()


def _seconds() -> None:
    solve(_workload(), progress=False)


def _on_time() -> None:
    for problem in (_instance(), _workload()):
        solve(problem, goal=OnTime(ServiceLevel(latency=3.5)), progress=False)


PARTS = (
    _prices,
    _states,
    _graphs,
    _schedules,
    _relaxation,
    _preemption,
    _seconds,
    _on_time,
)
"""Functions that together call every compiled loop at least once, on four requests."""


def compile_kernels(heard: Heard = lambda name, seconds: None) -> float:
    """Compile every loop of the searches and the relaxation, by small runs on four requests.

    Parameters
    ----------
    heard : callable, optional
        Called after each compilation with the full name of the loop and the seconds taken.

    Returns
    -------
    float
        Seconds taken in all, close to 0 if all machine code is on disk already.
    """
    clock = Clock()
    with nothing_plain(), heard_compiling(end=heard):
        for part in PARTS:
            part()
    return clock.seconds()


def main() -> None:
    """Compile the loops, and print how long each compilation takes."""
    clock, count = Clock(), 0

    def heard(name: str, seconds: float) -> None:
        nonlocal count
        count += 1
        print(f"{count:3}  {seconds:5.1f} s  {name}", flush=True)

    compile_kernels(heard)
    print(f"{count} loops compiled in {clock.seconds():.1f} s")


if __name__ == "__main__":
    main()
