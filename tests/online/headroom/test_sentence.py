"""The answer in words, from figures written by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from instances import Workload
from instances.batch_time import AffineTime
from online.comparison import Interval
from online.headroom import Headroom, Measured, headroom_page
from online.headroom.answer import BestPossible, CurvePoint, PolicyRun
from online.headroom.page import bars, headline
from online.headroom.tables import NO_HASHES, fields, notes, sentences, tables
from online.headroom.waiting import OverTime

WORKLOAD = Workload([0.0, 1.0, 2.0], [3, 3, 3], [2, 3, 4], memory_limit=20)


def run(policy: str, *latencies: float, error: float = 0.0) -> PolicyRun:
    """A policy under which the three requests take so many seconds."""
    column = np.array(latencies)
    mean = sum(map(Fraction, latencies), Fraction(0)) / 3
    return PolicyRun(policy, error, mean, latencies=column, first_tokens=column / 2)


VLLM = run("vllm", 8.0, 10.0, 12.0)


def sentence(found: Headroom) -> str:
    """The answer, which ends with the reuse of prompts, without that."""
    *said, last = sentences(found)
    assert last == NO_HASHES
    return " ".join(said)


def answer(
    low: float | None,
    high: float | None,
    *runs: PolicyRun,
    measured: float | None = None,
    error: float = 0.0,
) -> Headroom:
    """What is found where the best possible mean latency is in [low, high]."""
    ends = (None if end is None else Fraction(str(end)) for end in (low, high))
    best = BestPossible(Interval(*ends), "own time", True)
    return Headroom(
        workload=WORKLOAD,
        batch_time=AffineTime(0.02, 2e-4, 1e-6),
        load=0.5,
        best=best,
        no_best=None,
        runs=runs,
        points=(CurvePoint(40, 1.0, 0.5, best, (VLLM,)),),
        unfinished=(),
        baseline="vllm",
        challenger="vllm",
        error=error,
        measured=None if measured is None else Measured(np.full(3, measured)),
        seconds=1.0,
        interrupted=False,
    )


TODAY = "vllm (simulated) has a mean latency of 10.000 s. "
SOME = (
    "Without a prefix cache, no scheduler could save more than {} of it; a schedule that saves {} "
    "is known."
)
UNKNOWN = SOME.partition(";")[0] + "; no schedule that saves 1 % is known."
PROVED = (
    "Without a prefix cache, no scheduler could save more than the {} of it that a known schedule "
    "saves."
)
KNOWN = SOME.format("6.000 s (60.0 %)", "4.000 s (40.0 %)")


@pytest.mark.parametrize(
    ("low", "high", "words", "figures"),
    [
        (4, 6, SOME, ("6.000 s (60.0 %)", "4.000 s (40.0 %)")),
        # What no scheduler saves more than is rounded up, what one saves is rounded down.
        (3.99999, 6.00001, SOME, ("6.001 s (60.1 %)", "3.999 s (39.9 %)")),
        # The interval of what is saved begins at nothing, and is wide or narrow.
        (4, 10, UNKNOWN, ("6.000 s (60.0 %)",)),
        (9.41, 10, UNKNOWN, ("0.590 s (5.9 %)",)),
        # The upper end of the best possible at what is worth a share.
        (9.41, 9.9, SOME, ("0.590 s (5.9 %)", "0.100 s (1.0 %)")),
        (8.9, 9.91, UNKNOWN, ("1.100 s (11.0 %)",)),
        (9, 10, UNKNOWN, ("1.000 s (10.0 %)",)),
        # Both ends are one figure as they are printed.
        (5, 5, PROVED, ("5.000 s (50.0 %)",)),
        (9.98, 9.98, PROVED, ("0.020 s (0.2 %)",)),
        (10, 10, UNKNOWN, ("0.000 s (0.0 %)",)),
        # An end that is not known: nobody saves more than all of it.
        (None, 6, SOME, ("10.000 s (100.0 %)", "4.000 s (40.0 %)")),
        (4, None, UNKNOWN, ("6.000 s (60.0 %)",)),
    ],
)
def test_what_could_be_saved(
    low: float | None, high: float | None, words: str, figures: tuple[str, ...]
) -> None:
    assert sentence(answer(low, high, VLLM)) == TODAY + words.format(*figures)


SAVED = (
    " The policy sjf, told exact output lengths, saves 3.000 s (30.0 %), between 50.0 and 75.0 % "
    "of what could be saved, {tail}."
)


@pytest.mark.parametrize(
    ("latencies", "tail"),
    [
        (
            (1.0, 6.0, 14.0),
            "but takes p99 latency from 12.000 to 14.000 s and the longest latency from 12.000 to",
        ),
        # Of three requests nothing but the longest is exceeded by 1 % at most.
        (
            (1.0, 7.875, 12.125),
            "but takes p99 latency from 12.000 to 12.125 s and the longest latency from 12",
        ),
        ((2.0, 7.0, 12.0), "and makes neither p99 nor the longest latency worse"),
        ((5.0, 7.0, 9.0), "and makes neither p99 nor the longest latency worse"),
    ],
)
def test_what_the_best_policy_does_to_the_tail(latencies: tuple[float, ...], tail: str) -> None:
    found = answer(4, 6, VLLM, run("sjf", *latencies))
    begin, end = SAVED.split("{tail}")
    assert sentence(found).startswith(TODAY + KNOWN + begin + tail)
    assert sentence(found).endswith(end)


def test_the_longest_alone_may_be_worse() -> None:
    """Of two hundred requests the longest hardly moves the 99th percentile."""
    column = np.full(200, 10.0)
    other = np.full(200, 7.0)
    other[-1] = 30.0
    found = answer(
        4,
        6,
        replace(VLLM, latencies=column),
        replace(VLLM, policy="sjf", mean_latency=Fraction(7), latencies=other),
    )
    assert sentence(found).endswith(" but takes the longest latency from 10.000 to 30.000 s.")


def test_a_policy_without_latencies_has_no_known_tail() -> None:
    found = answer(4, 6, VLLM, PolicyRun("sjf", 0.0, Fraction(7)))
    assert sentence(found).endswith(", with a tail that is not known.")


def test_exact_and_predicted_lengths_each_have_their_best_policy() -> None:
    found = answer(
        *(4, 6, VLLM, run("sjf", 5.0, 7.0, 9.0), run("volume", 6.0, 8.0, 10.0)),
        *(run("sjf", 9.0, 9.0, 30.0, error=0.5), run("volume", 9.0, 9.0, 9.0, error=0.5)),
        error=0.5,
    )
    first, second = sentence(found).split(" is known. ")[1].split(" worse. ")
    assert first.startswith(
        "The policy sjf, told exact output lengths, saves 3.000 s (30.0 %), between 50"
    )
    assert second.startswith(
        "The policy volume, told output lengths off by 50 %, saves 1.000 s (10.0 %), betw"
    )


@pytest.mark.parametrize(
    ("latencies", "end"),
    [
        ((5.0, 7.0, 9.0), "worse. With output lengths off by 50 % nothing changes."),
        ((6.0, 8.0, 10.0), "Told output lengths off by 50 %, it saves 2.000 s (20.0 %), between "),
    ],
)
def test_a_policy_is_named_once(latencies: tuple[float, ...], end: str) -> None:
    runs = run("sjf", 5.0, 7.0, 9.0), run("sjf", *latencies, error=0.5)
    said = sentence(answer(4, 6, VLLM, *runs, error=0.5))
    assert said.count("The policy sjf, told exact output lengths, saves") == 1
    assert end in said


def test_of_a_wide_interval_the_lower_end_is_told() -> None:
    said = sentence(answer(0.5, 9, VLLM, run("sjf", 8.0, 9.0, 10.0)))
    assert "saves 1.000 s (10.0 %), at least 10.5 % of what could be saved, " in said
    said = sentence(answer(6, 6, VLLM, run("sjf", 8.0, 9.0, 10.0)))
    assert "saves 1.000 s (10.0 %), 25.0 % of what could be saved, " in said


def test_a_policy_that_loses_is_not_praised() -> None:
    slow = [run(name, 9.0, 10.0, 12.0) for name in ("fcfs", "wait")]
    said = f"{TODAY}{KNOWN} Told exact output lengths, "
    assert sentence(answer(4, 6, VLLM, slow[0])) == (
        f"{said}fcfs has no shorter mean latency than vllm."
    )
    # One that did not end is not counted.
    late = PolicyRun("lp", 0.0, None, "its time ran out")
    assert sentence(answer(4, 6, VLLM, *slow, late)) == (
        f"{said}none of the 2 other policies simulated has a shorter mean latency than vllm."
    )


OFF = "The log has a mean latency of {:.3f} s, and vllm simulated is {} % {} it"


def test_the_difference_from_the_log_is_not_a_saving() -> None:
    """Savings are those of the simulated baseline, whatever the log measured."""
    saved = SAVED.format(tail="and makes neither p99 nor the longest latency worse")
    runs = VLLM, run("sjf", 5.0, 7.0, 9.0)
    near = OFF.format(9.5, 5.3, "above")
    assert sentence(answer(4, 6, *runs, measured=9.5)) == f"{TODAY}{KNOWN} {near}.{saved}"
    # Beyond a tenth it comes first, with what it may come from.
    for measured, share, way, cause in (
        (8.0, "25.0", "above", "a batch time that is too slow"),
        (20.0, "50.0", "below", "time outside the engine"),
    ):
        said = sentence(answer(4, 6, *runs, measured=measured))
        gain = KNOWN.replace("Without", "In this simulation, without")
        begin, rest = said.split(". This difference is not a saving. It may come from ")
        assert begin == f"{OFF.format(measured, share, way)} ({10 - measured:+.3f} s)"
        assert rest.startswith(cause)
        assert rest.endswith(f" {TODAY}{gain}{saved}")
    said = sentence(answer(4, 6, *runs, measured=5000.0))
    assert "It may come from latencies in another unit than seconds, time outside" in said


def test_no_cause_is_named_where_arrivals_are_made_up() -> None:
    found = replace(answer(4, 6, VLLM, measured=3.5), made_up=True)
    arrivals, off, *_ = sentences(found)
    assert arrivals.startswith("The log has no start times: the requests are spread evenly, ")
    assert off.endswith(": arrivals are made up, so the two cannot be compared.")
    assert "batch time" not in sentence(found)


@pytest.mark.parametrize("runs", [(VLLM, run("sjf", 5.0, 7.0, 9.0)), ()])
def test_a_log_faster_than_every_schedule_gives_no_savings(runs: tuple[PolicyRun, ...]) -> None:
    found = answer(4, 6, *runs, measured=3.5)
    assert sentence(found) == (
        "The log's own mean latency is 3.500 s, but with this batch time no scheduler could reach "
        "less than 4.000 s: the batch time is too slow for the machine of the log, the memory "
        "limit too small, or prompts were reused. So no savings are given."
    )
    columns = [name for table in tables(found).values() for name in table.columns]
    assert not [name for name in columns if "headroom" in name or "saved" in name]
    assert not [note for note in notes(found) if "share" in note.lower()]


def test_who_waits_is_told_by_the_simulation() -> None:
    for measured in (3.5, 8.0):
        found = answer(4, 6, VLLM, measured=measured)
        (table,) = (
            one for one in tables(found).values() if one.title.startswith("Which requests pay")
        )
        assert table.columns[-1] == "of all waiting (vllm), %"
    # Nothing but the log: nobody is left to ask.
    assert "classes" not in tables(answer(4, 6, measured=3.5))


def test_where_there_is_nothing_to_gain_nobody_has_a_share() -> None:
    """A share of what may be nothing would be anything up to all of it."""
    found = answer(9.41, 9.995, VLLM, run("sjf", 9.0, 9.0, 11.985))
    policies = tables(found)["policies"]
    assert policies.title == "Policies"
    assert not [name for name in policies.columns if "headroom" in name]
    assert any(note.startswith("No policy's share of what could be saved") for note in notes(found))
    found = answer(4, 6, VLLM, run("sjf", 5.0, 7.0, 9.0))
    (policies,) = (
        one for one in tables(found).values() if one.title.startswith("Policies, and the share")
    )
    assert "[50.0, 75.0]" in policies.rows[0]


def test_policies_without_a_result_have_a_table_of_their_own() -> None:
    late = [PolicyRun("lp", error, None, "its time ran out") for error in (0.0, 0.5)]
    found = answer(4, 6, VLLM, run("sjf", 5.0, 7.0, 9.0, error=0.5), *late, error=0.5)
    policies, failures = (tables(found)[name] for name in ("policies", "failures"))
    # One that ended with predicted lengths alone is among the others.
    assert [row[0] for row in policies.rows] == ["vllm", "sjf"]
    assert policies.rows[1][1] == ""
    assert failures.rows == (
        ("lp", "exact", "its time ran out"),
        ("lp", "predicted, off by 50 %", "its time ran out"),
    )


def test_without_a_best_possible_it_is_said_why() -> None:
    for why, said in (("no bound", "no bound"), (None, "there was no time for it")):
        found = replace(answer(4, 6, VLLM), best=None, no_best=why)
        assert fields(found, {})["best possible"] == said
        assert sentence(found).startswith("No answer: ")
    assert sentence(answer(4, 6)).startswith("No answer: vllm did not end: ")


def test_the_page_says_the_same_above_the_requests() -> None:
    found = answer(4, 6, VLLM, run("sjf", 5.0, 7.0, 9.0))
    page = headroom_page(found, {}, "a log")
    said = [f"<li>{one}</li>" for one in sentences(found)]
    assert page.count("\n".join(said)) == 1
    assert page.index(said[0]) < page.index('id="policies-picture"') < page.index('id="facts"')


@pytest.mark.parametrize(
    ("low", "high", "measured", "saved"),
    [
        (4, 6, None, "The best scheduler could have saved 40.0 to 60.0 % of the mean latency"),
        (5, 5, None, "The best scheduler could have saved 50.0 % of the mean latency"),
        (4, 10, None, "The best scheduler could have saved at most 60.0 % of the mean latency"),
        (4, None, None, "The best scheduler could have saved at most 60.0 % of the mean latency"),
        # The same of a log that is near, and after the difference of one that is not.
        (4, 6, 9.5, "The best scheduler could have saved 40.0 to 60.0 % of the mean latency"),
        (
            *(4, 6, 8.0),
            (
                "Simulated latency is 25.0 % above the log's; the best scheduler could have saved "
                "40.0 to 60.0 % of the mean latency simulated"
            ),
        ),
        (4, 6, 3.5, "The batch time or the memory limit does not fit this log"),
    ],
)
def test_the_page_is_headed_by_the_answer(
    low: float, high: float | None, measured: float | None, saved: str
) -> None:
    found = answer(low, high, VLLM, run("sjf", 5.0, 7.0, 9.0), measured=measured)
    assert headline(found) == saved
    page = headroom_page(found, {}, "a log").replace("\N{NO-BREAK SPACE}", " ")
    assert page.count(f"<h1>{saved.replace(chr(39), '&#x27;')}</h1>") == 1


def test_bars_are_as_long_as_their_figures() -> None:
    drawn = bars(answer(4, 6, VLLM, run("sjf", 5.0, 7.0, 9.0), measured=8.0))
    rows = re.findall(r"<span>([a-z, ]+)</span>.*?([\d.]+)%;.*?([\d.]+)%;.*?<b>(.*?)</b>", drawn)
    assert rows == [
        ("vllm, simulated", "100.00", "0.00", "10.000 s"),
        ("sjf, exact lengths", "70.00", "0.00", "7.000 s"),
        ("best possible", "40.00", "20.00", "4.000 to 6.000 s"),
    ]


def test_the_page_draws_each_figure_in_its_colour_and_unit() -> None:
    stretches = OverTime(10.0, np.array([2.0, 0.0]), np.array([1.0, 0.0]))
    runs = (replace(VLLM, over_time=stretches), run("sjf", 5.0, 7.0, 9.0, error=0.5))
    page = headroom_page(answer(4, 6, *runs), {"read": "<b>"}, "a log")
    assert ">&lt;b&gt;</td>" in page
    policies, over_time = (
        page.partition(f'id="{name}-picture"')[2].partition("</details>")[0]
        for name in ("policies", "over-time")
    )
    # What runs today, policies told exact lengths, and others.
    today, exact, predicted = (
        set(re.findall(rf'{mark}="(var[^"]*)"{rest}', policies))
        for mark, rest in (
            ("stroke", ' class="rule"'),
            ('r="5" class="point" fill', ""),
            ('class="point" fill="[^"]*" stroke', ""),
        )
    )
    assert len(today) == len(exact) == len(predicted) == 1
    assert len(today | exact | predicted) == 3
    # The longest queue, and a memory that is full, stand at the top of their axes.
    queue, memory = re.findall('<path d="([^"]*)"[^>]* class="line"', over_time)
    assert queue == memory
