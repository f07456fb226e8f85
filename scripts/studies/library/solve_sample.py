"""Solve instances with the version of the package that runs this: a program, not a module.

What it is given on standard input, and what it uses, every version understands:
`Instance.from_arrays` and `hindsight.solve(instance, seconds)`. It prints a line for each instance.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Solve what is asked for on standard input."""
    import hindsight
    from instances import Instance

    task = json.load(sys.stdin)
    # What is compiled or loaded at the first solve is not the solver's time.
    small = Instance.from_arrays([1, 2, 3, 1, 2], [3, 2, 4, 5, 2], [0, 0, 1, 2, 2], memory_limit=9)
    hindsight.solve(small, task["seconds"])
    print(json.dumps("ready"), flush=True)
    for name, columns, memory_limit in task["instances"]:
        prompts, outputs, arrivals = columns
        instance = Instance.from_arrays(
            prompts,
            outputs,
            arrivals,
            memory_limit=memory_limit,
            metadata={"allow_zero_prompt_length": True} if 0 in prompts else {},
        )
        result = hindsight.solve(instance, task["seconds"])
        print(
            json.dumps([name, result.certified_lower_bound, result.upper_bound, result.runtime]),
            flush=True,
        )


if __name__ == "__main__":
    main()
