"""Problems, schedules in seconds and fractions as they are stored: in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np

from instances import Instance, InvalidTypeError, InvalidValueError, SecondsSchedule, Workload
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.json_io import from_document, to_document
from instances.problem.memory_rule import TOKENS, MemoryRule
from online.comparison.trial import AnyProblem

WORKLOAD = "llm-hindsight/workload"


def canonical(value: Any) -> str:
    """Write JSON of which there is only one: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def problem_document(problem: AnyProblem) -> dict[str, Any]:
    """Return an instance as its files have it, or a workload with its requests as rows.

    A batch time is not in it: it is stored with the experiment.
    """
    if isinstance(problem, Instance):
        return to_document(problem)
    lengths = (problem.arrival_times, problem.prompt_lengths, problem.output_lengths)
    columns = (problem.ids, *(column.tolist() for column in lengths))
    return {
        "format": WORKLOAD,
        "name": problem.name,
        "memory_limit": problem.memory_limit,
        **({} if problem.memory_rule == TOKENS else {"memory_rule": asdict(problem.memory_rule)}),
        **({"replicas": problem.replicas} if problem.replicas > 1 else {}),
        "metadata": problem.metadata,
        "requests": [list(row) for row in zip(*columns, strict=True)],
    }


def problem_of(document: Mapping[str, Any]) -> AnyProblem:
    """Read what `problem_document` wrote.

    Raises
    ------
    FileFormatError, InvalidValueError, InvalidTypeError
        It is no such document.
    """
    if document.get("format") != WORKLOAD:
        return from_document(document)
    try:
        ids, *columns = zip(*document["requests"], strict=True)
        return Workload(
            *columns,
            memory_limit=document["memory_limit"],
            ids=ids,
            name=document["name"],
            metadata=document["metadata"],
            memory_rule=MemoryRule(**document.get("memory_rule", {})),
            replicas=document.get("replicas", 1),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidTypeError("workload", "document", type(error).__name__, str(error)) from None


def schedule_document(schedule: SecondsSchedule) -> dict[str, Any]:
    """Return stretches and starts of rounds: all else follows from the workload."""
    table = np.stack([getattr(schedule, name) for name in COLUMNS], axis=1)
    return {"stretches": table.tolist(), "round_starts": schedule.round_starts.tolist()}


def schedule_of_document(workload: Workload, document: Mapping[str, Any]) -> SecondsSchedule:
    """Read what `schedule_document` wrote, and check it.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        It is none, or breaks a rule.
    """
    stretches, starts = (document.get(name) for name in ("stretches", "round_starts"))
    if not isinstance(stretches, list) or not isinstance(starts, list):
        raise InvalidTypeError("schedule", "document", document, "is no schedule in seconds")
    try:
        schedule = SecondsSchedule(workload, stretches, starts)
    except TypeError as error:
        raise InvalidTypeError("schedule", "document", document, str(error)) from None
    if violations := schedule.violations():
        reason = f"breaks: {violations[0]}"
        raise InvalidValueError("schedule", "stretches", "a schedule", reason)
    return schedule


def seconds_text(seconds: Fraction) -> str:
    """Write a fraction: every digit, and never mistaken for a number of rounds."""
    return f"{seconds.numerator}/{seconds.denominator}"


def seconds_of_text(field: str, text: Any) -> Fraction:
    """Read what `seconds_text` wrote.

    Raises
    ------
    InvalidValueError
        Something else.
    """
    try:
        above, below = text.split("/")
        return Fraction(int(above), int(below))
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        raise InvalidValueError("trial", field, text, "is no fraction of seconds") from None
