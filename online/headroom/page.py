"""The answer as one self-contained page."""

from __future__ import annotations

from typing import Any

from online.pictures import new_axes
from online.pictures.page import FIGURE_WIDTH, page

from .answer import Headroom
from .tables import tables
from .words import answers, conditions, facts, headline, notes


def headroom_page(found: Headroom, title: str) -> str:
    """Write a page: the answer, a picture and the machine first, then tables and notes.

    Parameters
    ----------
    found : Headroom
        The answer.
    title : str
        Title of the page.
    """
    said = [f"{name}: {text}" if name else text for name, text in answers(found)]
    known = facts(found)
    machine = [f"{name}: {known[name]}" for name in MACHINE if name in known]
    content: list[Any] = [[*said, f"Holds for: {conditions(found)}"], picture(found), machine]
    sections: dict[str, Any] = {title: [table] for title, table in tables(found).items()}
    sections["The requests and the machine"] = [[f"{name}: {it}" for name, it in known.items()]]
    sections["What the figures are"] = [notes(found)]
    heading = headline(found).replace(" %", "\N{NO-BREAK SPACE}%")
    return page(title, heading, content, sections)


MACHINE = ("a round lasts", "memory limit M", "load")
"""Facts on the first screen."""


def picture(found: Headroom) -> Any:
    """Draw today's mean latency, the proposals' and the best possible; or requests on time."""
    question = found.question
    if question.level is not None and len(found.tried()) > 1:
        return _replicas_picture(found)
    rows: list[tuple[str, float, float]] = []
    for task, served in found.here.items():
        if task.policy in (question.baseline, *question.proposed):
            mean = float(served.mean_latency)
            rows.append((task.name, mean, mean))
    best = found.best()
    if best is not None:
        low, high = best[0].interval.ends
        if high is not None:
            rows.append(("best possible", low or 0.0, high))
    ax = new_axes(FIGURE_WIDTH, 0.8 + 0.35 * len(rows))
    rows.reverse()
    for place, (_, low, high) in enumerate(rows):
        ax.barh(place, low, color="#4477aa" if low == high else "#228833")
        ax.barh(place, high - low, left=low, color="#228833", alpha=0.35)
    ax.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    ax.set_xlabel("mean latency, s; the best possible ends in the pale part")
    return ax


def _replicas_picture(found: Headroom) -> Any:
    """Draw the requests on time today and the attainable by number of replicas."""
    places, name = found.tried(), found.question.baseline
    counts = [one.replicas for one in places]
    shares = [found.served(name, place=one) for one in places]
    ends = [found.attainable(one).ends for one in places]
    ax = new_axes(FIGURE_WIDTH, 2.6)
    low, high = ([100 * (pair[side] or 0.0) for pair in ends] for side in (0, 1))
    ax.fill_between(counts, low, high, color="#228833", alpha=0.35, label="attainable (interval)")
    today = [100 * float(one.on_time or 0) if one else 0.0 for one in shares]
    ax.plot(counts, today, "o-", color="#4477aa", label="today")
    ax.set(xlabel="replicas", ylabel="requests on time, %", xticks=counts, ylim=(0, 104))
    ax.legend(frameon=False, loc="lower right")
    return ax
