"""Show a problem, a schedule or a run in a notebook as a table of facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def facts_html(shown: object, name: object, facts: Mapping[str, object]) -> str:
    """Write the kind and the name of an object, and facts on it, as an HTML table."""
    import pandas

    rows = {"name": name, **facts} if name else facts
    return str(pandas.Series(rows, dtype=object).to_frame(type(shown).__name__).to_html())


def problem_html(problem: Any) -> str:
    """Show an instance or a workload."""
    times = problem.arrival_times
    facts: dict[str, object] = {
        "requests": len(problem),
        "memory limit M": f"{problem.memory_limit} tokens",
        f"arrival times ({problem.unit})": f"{times.min():.6g} to {times.max():.6g}",
    }
    columns = {
        "prompt lengths (tokens)": problem.prompt_lengths,
        "output lengths (tokens)": problem.output_lengths,
        "weights": problem.weights if getattr(problem, "is_weighted", False) else None,
    }
    for name, values in columns.items():
        if values is not None:
            facts[name] = f"{values.min()} to {values.max()}, mean {values.mean():.4g}"
    if problem.memory_rule.told:
        facts["memory"] = problem.memory_rule.told
    return facts_html(problem, problem.name, facts | {"digest": problem.digest[:12]})
