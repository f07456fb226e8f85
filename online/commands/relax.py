"""The linear relaxation of an instance: bounds at any size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import instances
from hindsight.outcomes.results import percent
from instances import Instance
from online.comparison.ratios import rounded_down, rounded_up

from .console import INTERRUPTED_STATUS, progress_bar
from .json_output import JsonFile, about, about_fields, answer, check_json
from .options import DEFAULT_SECONDS, Threads, TimeLimit, importing, limit_note, limit_of
from .sources import OneSource, parse_source, read_in_time

if TYPE_CHECKING:
    from hindsight import Relaxation, RelaxationProgress


@importing
def relax(
    source: OneSource,
    method: Annotated[
        str, typer.Option(help="lp (the whole model, by HiGHS), lagrangian (prices), or auto.")
    ] = "auto",
    gap: Annotated[
        float, typer.Option(min=1e-9, max=1, help="Relative gap at which lagrangian stops.")
    ] = 0.01,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> int:
    """A certified lower bound on the optimum, and an interval for the value of the relaxation.

    Waiting is what total latency is beyond the output lengths, which no schedule avoids.

    Ctrl-C ends the lagrangian method with what is proved so far (exit status 130).
    """
    parsed = parse_source(source)
    check_json(json_file, source=parsed.file)
    # The whole model has no bound to show before it is solved.
    limit = limit_of(time_limit, math.inf if method == "lp" else DEFAULT_SECONDS)
    instance, limit, _ = read_in_time(parsed, limit)
    import hindsight
    from hindsight.outcomes.results import relative_waiting_gap
    from hindsight.runtime.interruption import interruption
    from hindsight.runtime.memory_use import resident_bytes

    relax_instance = hindsight.relax  # loaded here: what is told takes as long as the relaxation
    with interruption() as pressed, progress_bar(1, lines=True) as update:
        update(0, "start")

        def show(news: RelaxationProgress) -> None:
            low, high = rounded_down(news.dual_value, 1), rounded_up(news.upper_bound, 1)
            waiting = percent(relative_waiting_gap(instance, news.dual_value, news.upper_bound))
            update(
                0,
                f"{news.phase} {news.iterations}: at least {news.lower_bound}, value [{low}, "
                f"{high}] {percent(news.gap)}, waiting {waiting}, {news.memory / 1e6:.0f} MB",
            )

        relaxed = relax_instance(
            instance,
            method=cast(Any, method),  # checked by hindsight
            tolerance=gap,
            time_limit=limit,
            threads=threads,
            progress=show,
            should_stop=pressed,
        )
    ended = limit_note(time_limit, relaxed.stop_reason)
    found = _found(instance, relaxed, resident_bytes(), ended)
    answer(json_file, "relax", found, _fields(found, ended))
    return INTERRUPTED_STATUS if relaxed.stop_reason == "interrupted" else 0


def _found(
    instance: Instance, relaxed: Relaxation, memory: int, ended: str | None
) -> dict[str, Any]:
    from hindsight.bounds.transportation import small_transportation_bound
    from instances.problem.memory_translation import pooled

    return {
        **about(instance),
        "method": relaxed.method,
        "stop_reason": relaxed.stop_reason,
        "certified_lower_bound_rounds": relaxed.certified_bound,
        "transportation_lower_bound_rounds": small_transportation_bound(pooled(instance)),
        "value_rounds": [relaxed.dual_value, relaxed.objective],
        "gap": relaxed.gap,
        "certified_waiting_rounds": relaxed.certified_waiting,
        "waiting_gap": relaxed.waiting_gap,
        "expected_starts_are_feasible": relaxed.is_feasible,
        "iterations": relaxed.iterations,
        "runtime_seconds": relaxed.runtime,
        "memory_bytes": memory,
        "notes": [note for note in (instances.rounding_note(instance.metadata), ended) if note],
    }


def _fields(found: Mapping[str, Any], ended: str | None) -> dict[str, str]:
    """Lines of the screen, from what `_found` says."""
    low, high = found["value_rounds"]
    notes = [note for note in found["notes"] if note != ended]
    fields = {
        "method": f"{found['method']} ({found['stop_reason']})",
        "certified lower bound": str(found["certified_lower_bound_rounds"]),
        "transportation lower bound": str(found["transportation_lower_bound_rounds"] or ""),
        "value at least": rounded_down(low),
        "value at most": rounded_up(high),
        "gap": percent(found["gap"]),
        "certified waiting": str(found["certified_waiting_rounds"]),
        "waiting gap": percent(found["waiting_gap"]),
        "expected starts": "of that value" if found["expected_starts_are_feasible"] else "a guess",
        "iterations": str(found["iterations"]),
        "runtime": f"{found['runtime_seconds']:.1f} s",
        "note": "; ".join(notes),
        "memory": f"{found['memory_bytes'] / 1e6:.0f} MB",
        "time limit": ended,
    }
    return about_fields(found) | {name: text for name, text in fields.items() if text}
