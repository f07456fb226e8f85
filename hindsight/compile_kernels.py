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
from .runtime import compilation
from .runtime.search import Search
from .schedules.improving import Improvement
from .solver import solve


def compile_kernels() -> None:
    """Call every compiled loop at least once, by small runs on four requests."""
    compilation.PLAIN_SECONDS = 0.0
    instance = Instance.from_arrays([3, 1, 2, 2], [1, 3, 2, 2], [0, 0, 1, 1], memory_limit=5)
    workload = Workload.from_instance(instance, AffineTime(0.5, 0.25))

    def opened(preemption: Preemption = "never") -> Interval:
        """Return the first bounds of the instance, which every method starts from."""
        interval = Interval(Problem(instance, preemption=preemption))
        open_latency(interval, None)
        return interval

    SmallMemory(opened(), Search()).run_each_part_once()
    # Arrays with room for one state must grow, which is a loop of its own.
    StateSearch(instance.columns, room=1).run()
    run_graphs_once(instance, opened().upper_bound)
    Improvement(opened()).run_each_part_once()
    relax(instance, method="lagrangian", tolerance=1e-7)
    Preemptive(opened("keep"), Search()).run_each_part_once()
    solve(workload, progress=False)
    for problem in (instance, workload):
        solve(problem, goal=OnTime(ServiceLevel(latency=3.5)), progress=False)


def main() -> None:
    """Compile the loops, and print how many seconds each compilation takes."""
    taken: list[float] = []

    def show(name: str, seconds: float | None) -> None:
        if seconds is not None:
            taken.append(seconds)
            print(f"{len(taken):3}  {seconds:5.1f} s  {name}", flush=True)

    with compilation.reported_compilations(show):
        compile_kernels()
    print(f"{len(taken)} loops compiled in {sum(taken):.1f} s")


if __name__ == "__main__":
    main()
