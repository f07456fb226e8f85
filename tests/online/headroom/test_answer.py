"""The answer in words and tables, from figures written by hand.

`make golden WHAT=answers` writes tests/golden/headroom/answers.txt again after an intended change.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np
import pytest
from golden import check_text

from instances import ServiceLevel, Workload
from instances.batch_time import AffineTime
from online.headroom import Headroom, Question, headroom_page
from online.headroom.tables import record, tables
from online.headroom.tasks import Bounds, Enclose, Failure, Serve, Served, p50_p99
from online.headroom.words import answer_lines, facts, remarks
from online.trials.intervals import Interval

TIME = AffineTime(0.02, 2e-4, 1e-6)
WORKLOAD = Workload([0.0, 1.0, 2.0], [3, 3, 3], [2, 3, 4], memory_limit=20, batch_time=TIME)
SJF, AGED = "vllm(order=shortest-job)", "vllm(ageing=5, order=shortest-output)"
FLEET = {"workload": WORKLOAD.replaced(replicas=2)}
LEVEL = {"level": ServiceLevel(latency=9.0, first_token=2.0)}
LATE = "lp-swap", "sorted-lp"


def served(*latencies: float) -> Served:
    """A run in which the requests take so many seconds, and the first token half of it."""
    column = np.array(latencies)
    figures = {"TTFT": column / 2, "TPOT": column / 6, "latency": column}
    mean = Fraction(sum(latencies)) / len(latencies)
    return Served(mean, {name: p50_p99(it) for name, it in figures.items()})


def interval(low: float | None, high: float | None) -> Interval:
    return Interval(*(None if end is None else Fraction(str(end)) for end in (low, high)))


TODAY = served(8.0, 10.0, 12.0)


def answer(
    low: float | None,
    high: float | None,
    results: Any = (),
    *,
    measured: float | None = None,
    without_reuse: Any = None,
    found: Any = None,
    **question: Any,
) -> Headroom:
    """What is found where the best possible mean latency is in [low, high]."""
    log = None if measured is None else np.full(3, measured)
    asked = Question(**{"workload": WORKLOAD, "error": 0.0, "measured": log, **question})
    bounds = Bounds(interval(low, high), "own time", True, without_reuse)
    count = asked.replicas
    known = {Serve("vllm", count): TODAY, Enclose(count): bounds, **dict(results)}
    return Headroom(asked, known, **(found or {}))


def proposed(*latencies: float, error: float = 0.0, name: str = SJF) -> dict[Serve, Served]:
    return {Serve(name, 1, error): served(*latencies)}


def on_time(
    shares: dict[int, float],
    attained: dict[int, tuple[float, float]],
    requests: int = 3,
    question: Any = None,
    **level: float,
) -> Headroom:
    """So many on time today and attainable with each number of replicas."""
    runs = {
        Serve("vllm", k): replace(TODAY, on_time=Fraction(str(it)).limit_denominator(requests))
        for k, it in shares.items()
    }
    points = {
        Enclose(k, on_time=True): Bounds(interval(*it), "by hand", True)
        for k, it in attained.items()
    }
    lengths = ([0.0] * requests, [3] * requests, [2] * requests)
    workload = Workload(*lengths, memory_limit=20, batch_time=TIME, replicas=max(shares))
    limits = level or {"latency": 9.0, "first_token": 2.0}
    asked = {"workload": workload, "level": ServiceLevel(**limits), "router": "round-robin"}
    return answer(4, 6, {**runs, **points}, **asked, **(question or {}))


ENDS: list[tuple[float | None, float | None]] = [
    # What no scheduler saves more than is rounded up, what one saves is rounded down.
    *((4, 6), (3.99999, 6.00001)),
    *((None, 6), (4, None), (10, 10)),
]
LONG = {"max_num_batched_tokens": 512, "max_num_seqs": 64, "prefix_caching": False}
SETTINGS = ",".join(f"{name}={value}" for name, value in LONG.items())
LABEL = f"vllm({SETTINGS.replace(',', ', ')})"
ANSWERS = {
    **{f"best possible in {ends}": answer(*ends) for ends in ENDS},
    "shortest job first": answer(4, 6, proposed(5.0, 7.0, 9.0)),
    "exact and predicted lengths": answer(
        *(4, 6), {**proposed(5.0, 7.0, 9.0), **proposed(6.0, 8.0, 30.0, error=0.5)}, error=0.5
    ),
    "one that loses": answer(4, 6, proposed(9.0, 10.0, 12.0)),
    "the better of two": answer(
        *(4, 6),
        {**proposed(9.0, 9.0, 9.0), **proposed(6.0, 6.0, 6.0, name="fcfs")},
        proposals=["vllm:order=shortest-job", "fcfs"],
    ),
    "shared prefixes": answer(2, 6, without_reuse=Fraction(5), shared_tokens=np.array([0, 3, 2])),
    "no shared prefixes": answer(4, 6, shared_tokens=np.zeros(3, np.int64)),
    # Savings are those of the simulation, whatever the log measured.
    **{f"log {said}": answer(4, 6, measured=said) for said in (9.5, 20, 3.5)},
    "arrivals made up": answer(4, 6, made_up=True),
    "a closed loop": answer(4, 6, measured=9.5, concurrency=4),
    "no time": answer(4, 6, found={"unfinished": ("a", "b", "c", "d", "e"), "left_out": 97}),
    "an error": answer(
        4, 6, {Serve(AGED, 1): Failure("ValueError: no"), Enclose(1): Failure("no")}
    ),
    "some take too long": answer(
        4, 6, {Serve(one, 1, 0.5): Failure("takes longer than 3 s", is_error=False) for one in LATE}
    ),
    "no answer": answer(
        4, 6, {Serve("vllm", 1): Failure("does not end: livelock", is_error=False)}
    ),
    "a fleet": answer(4, 6, **FLEET, router="round-robin"),
    "replicas": on_time({1: 1 / 3, 2: 2 / 3, 3: 1}, {1: (0.6, 0.9), 2: (0.6, 1), 3: (1, 1)}),
    "not enough replicas": on_time({2: 1 / 3, 3: 2 / 3}, {2: (0.6, 0.9), 3: (0.8, 1)}),
    "replicas of a doubtful simulation": on_time(
        {1: 1 / 3, 2: 2 / 3}, {1: (0.6, 0.9)}, question={"measured": 18.6, "share": 0.6}
    ),
    "a doubtful simulation": on_time({1: 1 / 3}, {}, question={"measured": 18.6}),
    "a known schedule": on_time({1: 1 / 3, 2: 1}, {1: (1, 1)}),
    "long settings": answer(
        *(4, 6),
        {
            Serve(name, 1): TODAY
            for name in (LABEL, LABEL.replace("pre", "order=shortest-job, pre"))
        },
        today=f"vllm:{SETTINGS}",
    ),
    # 119 of 120 are 99.17 %: never above what is attainable, and never rounded up.
    "a limit on TTFT alone": on_time({1: 119 / 120}, {1: (0, 1)}, 120, first_token=2.0),
    "a limit that is reached": on_time({1: 119 / 120}, {1: (0, 119.5 / 120)}, 120, latency=9.0),
}
CROWDED = answer(
    *(2, 6),
    {Serve(LABEL, 2): replace(TODAY, on_time=Fraction(2, 3))},
    **FLEET,
    **LEVEL,
    today=f"vllm:{SETTINGS}",
    measured=123456.789,
    measured_first=np.full(3, 123456.789),
    without_reuse=Fraction(5),
    shared_tokens=np.array([0, 3, 2]),
    concurrency=4,
    found={"unfinished": ("a",) * 99, "left_out": 123_456},
)
"""As much as an answer can have to say."""


def told(found: Headroom) -> list[str]:
    described = [f"{name}: {value}" for name, value in facts(found).items()]
    shown = [f"{title}\n{it.to_string(index=False)}" for title, it in tables(found).items()]
    lines = [*answer_lines(found), *remarks(found), *described, *shown]
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


@pytest.mark.parametrize("name", [*ANSWERS, "crowded"])
def test_an_answer_has_at_most_eight_lines_of_eighty_columns(name: str) -> None:
    lines = answer_lines(ANSWERS.get(name, CROWDED))
    assert 2 <= len(lines) <= 8
    assert max(map(len, lines)) <= 80
    needed = {"Log", "Holds"} if name == "no answer" else {"Log", "Today", "Holds"}
    needed |= {"Limit", "Replicas"} if name == "crowded" else set()
    assert needed <= {line.split()[0] for line in lines}


@pytest.mark.parametrize("name", ["log 20", "replicas", "a fleet"])
def test_the_page_says_the_same(name: str) -> None:
    found = ANSWERS[name]
    page = headroom_page(found, "<log>")
    assert "<h1>&lt;log&gt;</h1>" in page
    assert page.count("<svg") == 1
    assert page.index("Limit: no scheduler") < page.index("<svg") < page.index("memory limit M")
    for title in tables(found):
        is_open = "by replicas" in title
        assert (f"<p>{escape(title)}</p>" if is_open else f"<h2>{escape(title)}</h2>") in page


def test_what_is_reached_is_attainable() -> None:
    (row,) = record(ANSWERS["a limit that is reached"])["service_level"]["by_replicas"]
    assert row["on_time"] == row["attainable"].lower == Fraction(119, 120)
