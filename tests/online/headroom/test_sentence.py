"""The answer in words, its notes and its tables, from figures written by hand.

`make golden WHAT=answers` writes tests/golden/headroom/answers.txt again after an intended change.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from golden import check_text

from instances import ServiceLevel, Workload
from instances.batch_time import AffineTime
from online.headroom import Headroom, Measured, headroom_page
from online.headroom.answer import BestPossible, CurvePoint, PolicyRun
from online.headroom.page import bars, headline
from online.headroom.tables import fields, notes, sentences, tables
from online.trials.intervals import Interval

TIME = AffineTime(0.02, 2e-4, 1e-6)
WORKLOAD = Workload([0.0, 1.0, 2.0], [3, 3, 3], [2, 3, 4], memory_limit=20, batch_time=TIME)


def run(policy: str, *latencies: float, error: float = 0.0, **known: Any) -> PolicyRun:
    """A policy under which the three requests take so many seconds."""
    column = np.array(latencies)
    mean = sum(map(Fraction, latencies), Fraction(0)) / len(latencies)
    return PolicyRun(policy, error, mean, latencies=column, first_tokens=column / 2, **known)


def interval(low: float | None, high: float | None) -> Interval:
    return Interval(*(None if end is None else Fraction(str(end)) for end in (low, high)))


VLLM = run("vllm", 8.0, 10.0, 12.0)
SJF = run("sjf", 5.0, 7.0, 9.0)
SLOW = [run(name, 9.0, 10.0, 12.0) for name in ("fcfs", "wait")]
LATE = [PolicyRun("lp", error, None, "its time ran out") for error in (0.0, 0.5)]


def answer(
    low: float | None,
    high: float | None,
    *runs: PolicyRun,
    measured: float | None = None,
    **changes: Any,
) -> Headroom:
    """What is found where the best possible mean latency is in [low, high]."""
    best = BestPossible(interval(low, high), "own time", True)
    found = Headroom(
        workload=WORKLOAD,
        load=0.5,
        best=best,
        no_best=None,
        runs=runs,
        points=(CurvePoint(40, 1.0, 0.5, best, (VLLM,)),),
        unfinished=(),
        baseline="vllm",
        challenger="vllm",
        error=0.0,
        measured=None if measured is None else Measured(np.full(3, measured)),
        seconds=1.0,
        interrupted=False,
    )
    return replace(found, **changes)


def fleet(assigned: tuple[float, float], best: tuple[float, float], **changes: Any) -> Headroom:
    """Behind round-robin, with these intervals where requests were sent and wherever they go."""
    routed = run("vllm", *VLLM.latencies, router="round-robin", assigned=interval(*assigned))
    several = {"routers": ("round-robin",), "routed": (routed,)}
    workload = WORKLOAD.with_replicas(2)
    return answer(*best, routed, workload=workload, **several, **changes)


ENDS: list[tuple[float | None, float | None]] = [
    # What no scheduler saves more than is rounded up, what one saves is rounded down.
    *((4, 6), (3.99999, 6.00001)),
    # From nothing on, in a wide and in a narrow interval; 1 % is worth a share.
    *((4, 10), (9.41, 10), (9.41, 9.9), (8.9, 9.91), (9, 10)),
    *((None, 6), (4, None)),
    # Both ends are one figure as they are printed, or nothing can be saved.
    *((5, 5), (9.98, 9.98), (10, 10)),
]
TAILS = [(1.0, 6.0, 14.0), (1.0, 7.875, 12.125), (2.0, 7.0, 12.0), (5.0, 7.0, 9.0)]
LONGEST = np.full(200, 10.0), np.append(np.full(199, 7.0), 30.0)
"""Of two hundred requests the longest hardly moves the 99th percentile."""

ANSWERS = {
    **{f"best possible in {ends}": answer(*ends, VLLM) for ends in ENDS},
    **{f"latencies {tail}": answer(4, 6, VLLM, run("sjf", *tail)) for tail in TAILS},
    "the longest alone is worse": answer(
        *(4, 6, replace(VLLM, latencies=LONGEST[0])),
        replace(SJF, latencies=LONGEST[1]),
        workload=Workload(range(200), [3] * 200, [2] * 200, memory_limit=20, batch_time=TIME),
    ),
    "no latencies": answer(4, 6, VLLM, PolicyRun("sjf", 0.0, Fraction(7))),
    "exact and predicted lengths": answer(
        *(4, 6, VLLM, SJF, run("volume", 6.0, 8.0, 10.0)),
        *(run("sjf", 9.0, 9.0, 30.0, error=0.5), run("volume", 9.0, 9.0, 9.0, error=0.5)),
        error=0.5,
    ),
    "one policy twice": answer(4, 6, VLLM, SJF, run("sjf", 6.0, 8.0, 10.0, error=0.5), error=0.5),
    "the same twice": answer(4, 6, VLLM, SJF, replace(SJF, error=0.5), error=0.5),
    "a wide interval": answer(0.5, 9, VLLM, run("sjf", 8.0, 9.0, 10.0)),
    "a share that is known": answer(6, 6, VLLM, run("sjf", 8.0, 9.0, 10.0)),
    "shared prefixes": answer(
        *(2, 6, VLLM, SJF),
        best=BestPossible(interval(2, 6), "own time", True, without_reuse=Fraction(5)),
        shared_tokens=np.array([0, 3, 2]),
    ),
    "no shared prefixes": answer(4, 6, VLLM, SJF, shared_tokens=np.zeros(3, np.int64)),
    "one that loses": answer(4, 6, VLLM, SLOW[0]),
    "two that lose, one that does not end": answer(4, 6, VLLM, *SLOW, LATE[0]),
    "some that do not end": answer(4, 6, VLLM, replace(SJF, error=0.5), *LATE, error=0.5),
    "nothing to gain": answer(9.41, 9.995, VLLM, run("sjf", 9.0, 9.0, 11.985)),
    # Savings are those of the simulated baseline, whatever the log measured.
    **{f"log {said}": answer(4, 6, VLLM, SJF, measured=said) for said in (9.5, 8, 20, 5000, 3.5)},
    "log 3.5 alone": answer(4, 6, measured=3.5),
    "arrivals made up": answer(4, 6, VLLM, measured=3.5, made_up=True),
    "no bound": answer(4, 6, VLLM, best=None, no_best="no bound"),
    "no time": answer(4, 6, VLLM, best=None),
    "no baseline": answer(4, 6),
    "a fleet": fleet((7, 8), (4, 5)),
    "losses that are both open": fleet((5, 10), (4, 6)),
    "a slow log of a fleet": fleet((7, 8), (4, 5), measured=12),
    **{
        f"fewest replicas in {ends}": fleet(
            *((7, 8), (4, 5)),
            capacity=SimpleNamespace(share=0.99, lower_bound=ends[0], upper_bound=ends[1]),
            level=ServiceLevel(latency=2.0),
        )
        for ends in ((3, 5), (1, 1), (1, 2), (4, None), (None, None))
    },
}


def told(found: Headroom) -> list[str]:
    facts = [f"{name}: {value}" for name, value in fields(found, {}).items()]
    rows = re.findall(r"<span>([^<]+)</span>.*?([\d.]+)%;.*?([\d.]+)%;.*?<b>(.*?)</b>", bars(found))
    shown = [one.to_text() for one in tables(found).values()]
    lines = [headline(found), *sentences(found), *notes(found), *facts, *map(str, rows), *shown]
    return "\n".join(lines).splitlines()


def test_golden_answers() -> None:
    """Of each answer the lines that the one before it does not have."""
    lines: list[str] = []
    before: list[str] = []
    for name, found in ANSWERS.items():
        said = told(found)
        lines += [f"=== {name}", *(one for one in said if one not in before)]
        before = said
    check_text("headroom/answers.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", ["latencies (5.0, 7.0, 9.0)", "log 8", "arrivals made up"])
def test_the_page_says_the_same_above_the_requests(name: str) -> None:
    found = ANSWERS[name]
    page = headroom_page(found, {"read": "<b>"}, "a log").replace("\N{NO-BREAK SPACE}", " ")
    said = [f"<li>{one}</li>" for one in sentences(found)]
    assert page.count("\n".join(said).replace("'", "&#x27;")) == 1
    assert page.count(f"<h1>{headline(found).replace(chr(39), '&#x27;')}</h1>") == 1
    assert page.index("<li>") < page.index('id="policies-picture"') < page.index('id="facts"')
    assert ">&lt;b&gt;</td>" in page
