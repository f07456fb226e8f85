"""The linear relaxation of an instance: bounds at any size."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import instances
from hindsight.outcomes.conditions import claim
from hindsight.outcomes.results import percent
from instances import Instance
from instances.user_modules import import_sources
from online.comparison.ratios import rounded_down, rounded_up

from .console import INTERRUPTED_STATUS, print_fields, progress_bar
from .json_output import JsonFile, check_json, write_json
from .policy_options import Cuts, Imports
from .time_limits import DEFAULT_SECONDS, TimeLimit, limit_note, limit_of
from .trace_options import load_instance

if TYPE_CHECKING:
    from typing import Literal

    from hindsight import Relaxation, RelaxationProgress


def relax(
    instance_file: Annotated[
        Path,
        typer.Argument(
            metavar="INSTANCE.json or NAME",
            help="Instance written by instances.save, or of the library by name.",
        ),
    ],
    method: Annotated[
        str, typer.Option(help="lp (the whole model, by HiGHS), lagrangian (prices), or auto.")
    ] = "auto",
    gap: Annotated[
        float, typer.Option(min=1e-9, max=1, help="Relative gap at which lagrangian stops.")
    ] = 0.01,
    tolerance: Annotated[
        float | None, typer.Option(min=1e-9, max=1, hidden=True, help="As --gap.")
    ] = None,
    time_limit: TimeLimit = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of HiGHS; default: its choice.")
    ] = None,
    cuts: Cuts = None,
    imports: Imports = None,
    json_file: JsonFile = None,
) -> int:
    """A certified lower bound on the optimum, and an interval for the value of the relaxation.

    Waiting is what total latency is beyond the output lengths, which no schedule avoids.

    Ctrl-C ends the lagrangian method with what is proved so far (exit status 130).
    """
    check_json(json_file, source=instance_file)
    import_sources(imports or [])
    # The whole model has no bound to show before it is solved.
    limit = limit_of(time_limit, math.inf if method == "lp" else DEFAULT_SECONDS)
    instance = load_instance(instance_file)
    import hindsight
    from hindsight.outcomes.results import relative_waiting_gap
    from hindsight.runtime.interruption import interruption
    from hindsight.runtime.memory_use import resident_bytes

    with interruption() as pressed, progress_bar(1) as update:

        def show(news: RelaxationProgress) -> None:
            low, high = rounded_down(news.dual_value, 1), rounded_up(news.upper_bound, 1)
            waiting = percent(relative_waiting_gap(instance, news.dual_value, news.upper_bound))
            value = f"[{low}, {high}] {percent(news.gap)}, waiting {waiting}"
            update(
                0,
                f"{news.phase} {news.iterations}: at least {news.lower_bound}, "
                f"value {value}, {news.memory / 1e6:.0f} MB",
            )

        relaxed = hindsight.relax(
            instance,
            method=cast('Literal["auto", "lp", "lagrangian"]', method),  # checked by hindsight
            tolerance=gap if tolerance is None else tolerance,
            cuts=cuts or (),
            time_limit=limit,
            threads=threads,
            progress=show,
            should_stop=pressed,
        )
    ended = limit_note(time_limit, relaxed.stop_reason)
    memory = resident_bytes()
    if not write_json(json_file, "relax", _record(instance, relaxed, memory, ended)):
        shown = {**_fields(instance, relaxed), "memory": f"{memory / 1e6:.0f} MB"}
        print_fields(shown | ({"time limit": ended} if ended else {}))
    return INTERRUPTED_STATUS if relaxed.stop_reason == "interrupted" else 0


def _fields(instance: Instance, relaxed: Relaxation) -> dict[str, str]:
    note = instances.rounding_note(instance.metadata)
    claimed = claim(relaxed.conditional_bound, relaxed.conditions)
    return {
        "instance": instance.name or "",
        "digest": instance.digest,
        "requests": str(len(instance)),
        "memory limit": str(instance.memory_limit),
        "method": f"{relaxed.method} ({relaxed.stop_reason})",
        "certified lower bound": str(relaxed.certified_bound),
        **({"conditional lower bound": claimed} if claimed else {}),
        "value at least": rounded_down(relaxed.dual_value),
        "value at most": rounded_up(relaxed.objective),
        "gap": percent(relaxed.gap),
        "certified waiting": str(relaxed.certified_waiting),
        "waiting gap": percent(relaxed.waiting_gap),
        "expected starts": "of that value" if relaxed.is_feasible else "a guess",
        "iterations": str(relaxed.iterations),
        "runtime": f"{relaxed.runtime:.1f} s",
        **({"note": note} if note else {}),
    }


def _record(
    instance: Instance, relaxed: Relaxation, memory: int, ended: str | None
) -> dict[str, Any]:
    return {
        "instance": instance.name,
        "digest": instance.digest,
        "requests": len(instance),
        "memory_limit_tokens": instance.memory_limit,
        "method": relaxed.method,
        "stop_reason": relaxed.stop_reason,
        "certified_lower_bound_rounds": relaxed.certified_bound,
        **(
            {
                "conditional_lower_bound_rounds": relaxed.conditional_bound,
                "conditions": list(relaxed.conditions),
            }
            if relaxed.conditions
            else {}
        ),
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
