"""Compile the loops of this package ahead of time: ``python -m hindsight.compile_kernels``.

numba compiles each loop on its first call, less than a minute in all, and stores the machine code
beside the sources for later processes. A compilation cannot be interrupted, so a first solve with
a short time limit would overrun it. Run this once after installation to avoid that.
"""

from __future__ import annotations

import numpy as np

from instances import Instance, MemoryRule, ServiceLevel
from instances.batch_time import AffineTime

from .exact_search.state_search import StateSearch
from .heuristics.block_schedules import BlockSchedules
from .heuristics.fleet_schedules import FleetSchedules
from .heuristics.list_scheduling import best_list_schedule
from .integer_program.horizon import proved_horizon
from .outcomes.results import PREEMPTIVE
from .outcomes.solve_state import SolveState
from .relaxation.methods import relax
from .runtime.clock import Clock, never
from .runtime.compilation import heard_compiling, nothing_plain
from .seconds.solving import solve_seconds
from .service.attainment import attainment
from .strategies.beams import LargeSearch
from .strategies.paths import PathSearch
from .strategies.preemptive import PreemptivePhases


def compile_kernels() -> float:
    """Run every compiled loop of the searches and the relaxation once, on four requests.

    Returns
    -------
    float
        Seconds taken, close to 0 if the machine code is there already.
    """
    clock = Clock()
    with nothing_plain():
        instance = Instance.from_arrays([3, 1, 2, 2], [1, 3, 2, 2], [0, 0, 1, 1], memory_limit=5)
        interval = SolveState(instance)
        interval.offer(best_list_schedule(instance))
        proved_horizon(instance)
        search = PathSearch(interval, seed=0)
        search.run_each_part_once()
        # The search above may have closed its interval; beams around an optimum do nothing.
        still_open = SolveState(instance)
        still_open.offer(best_list_schedule(instance))
        LargeSearch(still_open).run_each_part_once()
        # The arrays grow only when more than 4,096 states of one epoch are kept.
        StateSearch(instance.columns, room=1).run()
        PreemptivePhases(SolveState(instance, objective=PREEMPTIVE)).run_each_part_once()
        blocks = instance.under(MemoryRule(block_size=5))
        in_blocks = BlockSchedules(blocks)
        first = in_blocks.in_order(np.arange(len(blocks)))
        in_blocks.improve(first, 0, never, lambda schedule: None, patience=1)
        fleet = FleetSchedules(instance.with_replicas(2))
        fleet.in_order(np.arange(len(instance)))
        fleet.cycle(1, never)
        relax(instance, method="lagrangian", tolerance=1e-7)
        solve_seconds(instance, AffineTime(0.5, 0.25))
        for batch_time in (None, AffineTime(0.5, 0.25)):
            attainment(instance, ServiceLevel(latency=3.5), batch_time=batch_time, progress=False)
    return clock.seconds()


def main() -> None:
    """Compile the loops, and print the seconds of each."""
    clock, last, count = Clock(), 0.0, 0

    def begin(name: str) -> None:
        nonlocal last
        last = clock.seconds()

    def end(name: str) -> None:
        nonlocal count
        count += 1
        print(f"{count:3}  {clock.seconds() - last:5.1f} s  {name}", flush=True)

    with heard_compiling(begin, end):
        compile_kernels()
    print(f"{count} loops compiled in {clock.seconds():.1f} s")


if __name__ == "__main__":
    main()
