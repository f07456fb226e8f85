"""Compile the loops of this package ahead of time: ``python -m hindsight.compile_kernels``.

numba compiles each loop on its first call and stores the machine code next to the sources for later
processes. All loops together take about a minute on one core. A compilation cannot be interrupted,
so a first solve may exceed a short time limit. To avoid that, run this once after installation.
"""

from __future__ import annotations

import numpy as np

from instances import Instance, ServiceLevel, Workload
from instances.batch_time import AffineTime

from .certificates.writing import make_certificate
from .exact.states import StateSearch
from .outcomes.goals import OnTime
from .outcomes.interval import Interval
from .outcomes.problem import Problem
from .prices.state_ascent import StateAscent
from .relaxation import relax
from .rounds.graphs import GraphSearch
from .rounds.stops import close_preemptive
from .runtime.clock import never
from .runtime.compilation import reported_compilations
from .runtime.search import Search
from .schedules.improving import CYCLES, Improvement
from .schedules.lists import one_after_another
from .schedules.orders import OrderSearch
from .solver import solve


def compile_kernels() -> None:
    """Compile every numba function of this package: call it on an instance of four requests."""
    instance = Instance.from_arrays([1, 1, 2, 2], [3, 3, 1, 2], [1, 0, 2, 1], memory_limit=6)
    workload = Workload.from_instance(instance, AffineTime(0.5, 0.25))

    interval = Interval(Problem(instance))
    interval.offer(one_after_another(instance))
    improvement = Improvement(interval)
    improvement.run_beams()
    improvement.run(len(CYCLES) + 1)
    OrderSearch(instance).run(1)
    StateSearch(instance.columns).run()
    StateAscent(instance, interval.schedule.makespan).improve(1)
    relax(instance, method="lagrangian", tolerance=1e-7)

    # Compile the functions of path graphs (`hindsight.paths`). The search starts from a schedule
    # and prices far from the optimum, so that it does not end before it has called every function.
    interval = Interval(Problem(instance))
    interval.offer(one_after_another(instance))
    levels = instance.memory_limit + 1
    prices = np.zeros((2, levels, levels), np.int64), np.zeros(2, np.int64)
    GraphSearch(interval).run(prices, 0, never)

    # Compile the functions for preemptive schedules. The search starts from a schedule far from the
    # optimum, so that it does not end before it has called every function.
    interval = Interval(Problem(instance, preemption="keep"))
    interval.offer(one_after_another(instance))
    close_preemptive(interval, Search(threads=1))

    found = relax(workload)
    make_certificate(found.schedule, found.proof)
    for problem in (instance, workload):
        solve(problem, goal=OnTime(ServiceLevel(latency=3.5)), progress=False)


if __name__ == "__main__":
    # Print the name of each function after its compilation.
    with reported_compilations(lambda name, is_ready: is_ready and print(name, flush=True)):
        compile_kernels()
