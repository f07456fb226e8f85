"""The hindsight problem in PyJobShop, for comparison only.

PyJobShop is installed in an environment of its own, where this package need not be. This file is
run by the Python of that environment: it reads one JSON object and prints another.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def minimise(problem: dict[str, Any], time_limit: float, constant: bool) -> dict[str, Any]:
    """Minimise the total latency with PyJobShop and CP-SAT, on one thread.

    Parameters
    ----------
    problem : dict
        Keys ``memory_limit`` and ``requests``, triples of prompt, output and arrival.
    time_limit : float
        Seconds.
    constant : bool
        True: a request is one task that holds its peak s + o from the first round on, so the
        optimum is only an upper bound. False: it is a chain of o tasks of one round each,
        without pauses, the k-th with s + k tokens, which is the problem itself.
    """
    from pyjobshop import Model

    model = Model()
    memory = model.add_renewable(capacity=problem["memory_limit"])
    for prompt, output, arrival in problem["requests"]:
        job = model.add_job(release_date=arrival)
        parts = [(1, prompt + age) for age in range(1, output + 1)]
        before = None
        for duration, demand in [(output, prompt + output)] if constant else parts:
            task = model.add_task(job=job)
            model.add_mode(task, memory, duration, demand)
            if before is not None:
                model.add_end_before_start(before, task)
                model.add_start_before_end(task, before)
            before = task
    model.set_objective(weight_total_flow_time=1)
    began, worked = time.perf_counter(), time.process_time()
    result = model.solve(time_limit=time_limit, display=False, num_workers=1)
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    found = result.objective != float("inf")
    return {
        "upper": round(result.objective) if found else None,
        "lower": round(result.lower_bound),
        "seconds": seconds,
        "processor": processor,
    }


if __name__ == "__main__":
    limit, held = sys.argv[1:]
    print(json.dumps(minimise(json.load(sys.stdin), float(limit), held == "constant")))
