"""The hindsight problem in OR-tools CP-SAT, for comparison only.

OR-tools and highspy export the same symbols and cannot share a process, so this module is run as a
process of its own: ``python -m studies.benchmarks.cp_sat INSTANCE.json SECONDS THREADS`` prints
one JSON object. Importing it elsewhere is safe; `minimise` is not to be called where highspy is
loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from instances import Instance, load, save


def minimise(instance: Instance, time_limit: float, threads: int) -> dict[str, Any]:
    """Solve with CP-SAT: the growing memory of a request is a stack of o intervals.

    The first holds s + 1 tokens for all o rounds, the j-th one token more from its j-th round on.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    horizon = int(instance.arrival_times.max() + instance.output_lengths.sum())
    starts, intervals, demands = [], [], []
    for index, request in enumerate(instance):
        latest = horizon - request.output_length
        start = model.new_int_var(request.arrival_time, latest, f"start_{index}")
        starts.append(start)
        for age in range(request.output_length):
            size = request.output_length - age
            intervals.append(model.new_fixed_size_interval_var(start + age, size, f"{index}_{age}"))
            demands.append(request.prompt_length + 1 if age == 0 else 1)
    model.add_cumulative(intervals, demands, instance.memory_limit)
    constant = int(instance.output_lengths.sum() - instance.arrival_times.sum())
    model.minimize(sum(starts) + constant)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.num_workers = threads
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return {
        "start_times": [solver.value(start) for start in starts] if found else None,
        "lower_bound": solver.best_objective_bound,
        "seconds": solver.wall_time,
        "optimal": status == cp_model.OPTIMAL,
    }


def minimise_in_a_process(instance: Instance, time_limit: float, threads: int) -> dict[str, Any]:
    """`minimise` in a process of its own.

    Raises
    ------
    RuntimeError
        The process failed, for example because OR-tools is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instance.json"
        save(instance, path)
        finished = subprocess.run(
            [
                sys.executable,
                "-m",
                "studies.benchmarks.cp_sat",
                str(path),
                str(time_limit),
                str(threads),
            ],
            capture_output=True,
            text=True,
            check=False,
            # The process finds this module where this one did.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError(f"CP-SAT failed: {lines[-1]}")
    answer: dict[str, Any] = json.loads(finished.stdout)
    return answer


if __name__ == "__main__":
    print(json.dumps(minimise(load(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
