"""``solve --method relaxation``: the linear relaxation of an instance, bounds at any size."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import instances
from online.trials.intervals import rounded_down

from .console import INTERRUPTED_STATUS, progress_bar
from .json_output import about, about_fields, answer
from .options import DEFAULT_SECONDS, limit_note, limit_of
from .sources import Source, read_in_time

if TYPE_CHECKING:
    from hindsight import Progress

RELAXATION = "relaxation"


def relaxed(
    source: Source,
    method: str,
    gap: float,
    time_limit: float | None,
    threads: int | None,
    json_file: Path | None,
) -> int:
    """Write a certified lower bound on the optimum, and the value of the relaxation.

    Ctrl-C ends the Lagrangian method with the bound proved so far (exit status 130).
    """
    method = method.removeprefix(RELAXATION).removeprefix("-") or "auto"
    # The whole model has no bound to show before it is solved.
    limit = limit_of(time_limit, math.inf if method == "lp" else DEFAULT_SECONDS)
    instance, limit, _ = read_in_time(source, limit)
    from hindsight.prices.volume import small_transportation_bound
    from hindsight.relaxation import relax_until
    from hindsight.runtime.resources import resident_bytes
    from instances.ctrl_c import Interruption
    from instances.problem.memory_translation import pooled

    with Interruption() as pressed, progress_bar(1, lines=True) as update:
        update(0, "start")

        def show(news: Progress) -> None:
            memory = f"{resident_bytes() / 1e6:.0f} MB"
            update(0, f"{news.phase} {news.nodes}: {news.text}, {memory}")

        found = relax_until(
            pressed,
            instance,
            limit,
            method=method,
            tolerance=None if method == "states" else gap,
            threads=threads,
            progress=show,
        )
    ended = limit_note(time_limit, found.stop_reason)
    note = instances.rounding_note(instance.metadata)
    transportation = small_transportation_bound(pooled(instance))
    told: dict[str, Any] = {
        **about(instance),
        "method": found.method,
        "stop_reason": found.stop_reason,
        "certified_lower_bound_rounds": found.certified_bound,
        "transportation_lower_bound_rounds": transportation,
        "value_rounds": found.objective,
        "certified_waiting_rounds": found.certified_waiting,
        "iterations": found.iterations,
        "runtime_seconds": found.runtime,
        "memory_bytes": resident_bytes(),
        "notes": [one for one in (note, ended) if one],
    }
    fields = {
        "method": f"{found.method} ({found.stop_reason})",
        "certified lower bound": str(found.certified_bound),
        "transportation lower bound": str(transportation or ""),
        "value" if found.method == "lp" else "value at least": rounded_down(found.objective),
        "certified waiting": str(found.certified_waiting),
        "iterations": str(found.iterations),
        "runtime": f"{found.runtime:.1f} s",
        "note": note,
        "memory": f"{told['memory_bytes'] / 1e6:.0f} MB",
        "time limit": ended,
    }
    shown = about_fields(told) | {name: text for name, text in fields.items() if text}
    answer(json_file, "solve", told, shown)
    return INTERRUPTED_STATUS if found.stop_reason == "interrupted" else 0
