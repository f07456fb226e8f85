"""Solve an instance with the version of the package that runs this, and note when it knew what.

A program, not a module: it uses what old versions have too, and tells what a version lacks.
"""

import contextlib
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


def problem_of(task: dict[str, Any]) -> Any:
    """Make an instance, or a workload where the task has a batch time."""
    import instances

    prompts, outputs, arrivals = task["columns"]
    more = {"memory_limit": task["memory_limit"]}
    if 0 in prompts:
        more["metadata"] = {"allow_zero_prompt_length": True}
    if task["memory_rule"]:
        if not hasattr(instances, "MemoryRule"):
            raise ImportError("instances has no MemoryRule")
        more["memory_rule"] = instances.MemoryRule(**task["memory_rule"])
    if "batch_time" in task["options"]:
        return instances.Workload(arrivals, prompts, outputs, **more)
    return instances.Instance.from_arrays(prompts, outputs, arrivals, **more)


def solved(task: dict[str, Any]) -> dict[str, Any]:
    """Solve once and listen; a version that tells nothing solves once for each time limit."""
    import hindsight

    options, accepted = dict(task["options"]), inspect.signature(hindsight.solve).parameters
    if missing := [name for name in options if name not in accepted]:
        raise ImportError(f"hindsight.solve has no {missing[0]}")
    if "batch_time" in options:
        from instances.batch_time.presets import preset

        options["batch_time"] = preset(options["batch_time"]).batch_time
    if not task["cold"]:
        with contextlib.suppress(ImportError):
            from hindsight.compile_kernels import compile_kernels

            compile_kernels()
        small = {"columns": [[1, 2, 3, 1], [3, 2, 4, 5], [0, 0, 1, 2]], "memory_limit": 9}
        hindsight.solve(problem_of({**task, **small, "memory_rule": None}), 10.0, **options)
    solve: Callable[..., Any] = hindsight.solve
    listener = next((one for one in ("progress", "callback") if one in accepted), None)
    intervals: list[list[float]] = []
    for limit in task["seconds"][-1:] if listener else task["seconds"]:
        problem, began = problem_of(task), time.perf_counter()

        def listen(found: Any, began: float = began) -> None:
            ends = (float(found.lower_bound), float(found.upper_bound))
            intervals.append([time.perf_counter() - began, *ends])

        asked = {**options, **({listener: listen} if listener else {})}
        result = solve(problem, limit, **asked)
        runtime = time.perf_counter() - began
        ends = getattr(result, "mean_latency_interval", (result.lower_bound, result.upper_bound))
        # What a solve returns counts at its limit, however long it took.
        intervals.append([min(runtime, limit), *map(float, ends)])
    certified = [int(result.certified_lower_bound), int(result.upper_bound)]
    how = f"one solve, listened to by {listener}=" if listener else "a solve for each time"
    return {"intervals": intervals, "certified": certified, "runtime": runtime, "how": how}


def end_with(parent: int) -> None:
    """End this process once the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with, args=[os.getppid()], daemon=True).start()
    try:
        print(json.dumps(solved(json.load(sys.stdin))))
    except ImportError as error:
        print(json.dumps({"lacks": str(error)}))
