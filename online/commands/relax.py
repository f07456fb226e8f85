"""The linear relaxation of an instance: bounds at any size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

import instances
from instances import Instance
from online.trials.intervals import rounded_down

from .console import INTERRUPTED_STATUS, progress_bar
from .json_output import JsonFile, about, about_fields, answer, check_json
from .options import DEFAULT_SECONDS, Threads, TimeLimit, importing, limit_note, limit_of
from .sources import OneSource, parse_source, read_in_time

if TYPE_CHECKING:
    from hindsight import Progress, Relaxation


@importing
def relax(
    source: OneSource,
    method: Annotated[
        str,
        typer.Option(help="lp (whole model, by HiGHS), lagrangian or states (prices), or auto."),
    ] = "auto",
    gap: Annotated[
        float, typer.Option(min=1e-9, max=1, help="Relative accuracy at which lagrangian stops.")
    ] = 0.01,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> int:
    """A certified lower bound on the optimum, and the value of the relaxation.

    Waiting is what total latency is beyond the output lengths, which no schedule avoids.

    Ctrl-C ends the lagrangian method with what is proved so far (exit status 130).
    """
    parsed = parse_source(source)
    check_json(json_file, source=parsed.file)
    # The whole model has no bound to show before it is solved.
    limit = limit_of(time_limit, math.inf if method == "lp" else DEFAULT_SECONDS)
    instance, limit, _ = read_in_time(parsed, limit)
    from hindsight.relaxation import relax_until
    from hindsight.runtime.resources import resident_bytes
    from instances.ctrl_c import Interruption

    with Interruption() as pressed, progress_bar(1, lines=True) as update:
        update(0, "start")

        def show(news: Progress) -> None:
            memory = f"{resident_bytes() / 1e6:.0f} MB"
            update(0, f"{news.phase} {news.nodes}: {news.text}, {memory}")

        relaxed: Relaxation = relax_until(
            pressed,
            instance,
            limit,
            method=method,
            tolerance=None if method == "states" else gap,
            threads=threads,
            progress=show,
        )
    ended = limit_note(time_limit, relaxed.stop_reason)
    found = _found(instance, relaxed, resident_bytes(), ended)
    answer(json_file, "relax", found, _fields(found, ended))
    return INTERRUPTED_STATUS if relaxed.stop_reason == "interrupted" else 0


def _found(
    instance: Instance, relaxed: Relaxation, memory: int, ended: str | None
) -> dict[str, Any]:
    from hindsight.prices.volume import small_transportation_bound
    from instances.problem.memory_translation import pooled

    return {
        **about(instance),
        "method": relaxed.method,
        "stop_reason": relaxed.stop_reason,
        "certified_lower_bound_rounds": relaxed.certified_bound,
        "transportation_lower_bound_rounds": small_transportation_bound(pooled(instance)),
        "value_rounds": relaxed.objective,
        "certified_waiting_rounds": relaxed.certified_waiting,
        "iterations": relaxed.iterations,
        "runtime_seconds": relaxed.runtime,
        "memory_bytes": memory,
        "notes": [note for note in (instances.rounding_note(instance.metadata), ended) if note],
    }


def _fields(found: Mapping[str, Any], ended: str | None) -> dict[str, str]:
    """Lines of the screen, from what `_found` says."""
    value = "value" if found["method"] == "lp" else "value at least"
    notes = [note for note in found["notes"] if note != ended]
    fields = {
        "method": f"{found['method']} ({found['stop_reason']})",
        "certified lower bound": str(found["certified_lower_bound_rounds"]),
        "transportation lower bound": str(found["transportation_lower_bound_rounds"] or ""),
        value: rounded_down(found["value_rounds"]),
        "certified waiting": str(found["certified_waiting_rounds"]),
        "iterations": str(found["iterations"]),
        "runtime": f"{found['runtime_seconds']:.1f} s",
        "note": "; ".join(notes),
        "memory": f"{found['memory_bytes'] / 1e6:.0f} MB",
        "time limit": ended,
    }
    return about_fields(found) | {name: text for name, text in fields.items() if text}
