"""What is stored of a problem and of a schedule in seconds, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np

from instances import Instance, InvalidTypeError, InvalidValueError, SecondsSchedule, Workload
from instances.batch_time import BatchTime
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.json_io import from_document, to_document
from instances.problem.memory_rule import TOKENS, MemoryRule
from online.comparison.trial import AnyProblem

WORKLOAD = "llm-hindsight/workload"


def problem_document(problem: AnyProblem) -> dict[str, Any]:
    """An instance as its files have it; of a workload the requests as rows."""
    if isinstance(problem, Instance):
        return to_document(problem)
    columns = (problem.ids, *(column.tolist() for column in _columns(problem)))
    return {
        "format": WORKLOAD,
        "name": problem.name,
        "memory_limit": problem.memory_limit,
        **({} if problem.memory_rule == TOKENS else {"memory_rule": asdict(problem.memory_rule)}),
        "metadata": problem.metadata,
        "requests": [list(row) for row in zip(*columns, strict=True)],
    }


def _columns(workload: Workload) -> tuple[Any, ...]:
    return workload.arrival_times, workload.prompt_lengths, workload.output_lengths


def problem_of(document: Mapping[str, Any]) -> AnyProblem:
    """What `problem_document` made the document of.

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
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidTypeError("workload", "document", type(error).__name__, str(error)) from None


def schedule_document(schedule: SecondsSchedule) -> dict[str, Any]:
    """Stretches and the starts of rounds: all else follows from workload and batch time."""
    table = np.stack([getattr(schedule, name) for name in COLUMNS], axis=1)
    return {"stretches": table.tolist(), "round_starts": schedule.round_starts.tolist()}


def schedule_of_document(
    workload: Workload, batch_time: BatchTime, document: Mapping[str, Any]
) -> SecondsSchedule:
    """What `schedule_document` made the document of, checked.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        It is none, or breaks a rule.
    """
    stretches, starts = (document.get(name) for name in ("stretches", "round_starts"))
    if not isinstance(stretches, list) or not isinstance(starts, list):
        raise InvalidTypeError("schedule", "document", document, "is no schedule in seconds")
    try:
        schedule = SecondsSchedule(workload, batch_time, stretches, starts)
    except TypeError as error:
        raise InvalidTypeError("schedule", "document", document, str(error)) from None
    if violations := schedule.violations():
        reason = f"breaks: {violations[0]}"
        raise InvalidValueError("schedule", "stretches", "a schedule", reason)
    return schedule


def seconds_text(seconds: Fraction) -> str:
    """Every digit, and never mistaken for a number of rounds."""
    return f"{seconds.numerator}/{seconds.denominator}"


def seconds_of_text(field: str, text: Any) -> Fraction:
    """What `seconds_text` wrote.

    Raises
    ------
    InvalidValueError
        Something else.
    """
    above, slash, below = text.partition("/") if isinstance(text, str) else ("", "", "")
    try:
        if not slash:
            raise ValueError
        return Fraction(int(above), int(below))
    except (ValueError, ZeroDivisionError):
        raise InvalidValueError("trial", field, text, "is no fraction of seconds") from None
