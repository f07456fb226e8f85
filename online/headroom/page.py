"""The answer as one self-contained page."""

from __future__ import annotations

from typing import Any

from online.pictures.page import bars, page

from .answer import Headroom
from .tables import tables
from .words import answers, conditions, facts, notes, remarks

MACHINE = ("a round lasts", "memory limit M", "load")
"""Facts on the first screen."""


def headroom_page(found: Headroom, title: str) -> str:
    """Write a page: the answer, a picture and the machine first, then tables and notes.

    Parameters
    ----------
    found : Headroom
        The answer.
    title : str
        Title of the page, and its heading.
    """
    said = [f"{name}: {text}" for name, text in answers(found)]
    known = facts(found)
    machine = [f"{name}: {known[name]}" for name in MACHINE if name in known]
    content: list[Any] = [[*said, f"Holds for: {conditions(found)}"], picture(found), machine]
    sections: dict[str, Any] = {name: [table] for name, table in tables(found).items()}
    sections["The requests and the machine"] = [[f"{name}: {it}" for name, it in known.items()]]
    sections["What the figures are"] = [[*remarks(found, None), *notes(found)]]
    return page(title, title, content, sections)


def picture(found: Headroom) -> Any:
    """Draw today's mean latency, the proposals' and the best possible."""
    question = found.question
    rows: list[tuple[str, float, float]] = []
    for task, served in found.simulations.items():
        if task.replicas == question.replicas and task.policy in (
            question.baseline,
            *question.proposed,
        ):
            mean = float(served.mean_latency)
            rows.append((task.name, mean, mean))
    if found.best is not None:
        low, high = found.best[0].interval.ends
        if high is not None:
            rows.append(("best possible", low or 0.0, high))
    return bars(rows, "mean latency, s")
