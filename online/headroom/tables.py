"""The answer as tables: what the command prints and the page shows, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from instances.arrays import FloatArray
from instances.problem.memory_rule import TOKENS, MemoryRule
from online.comparison.ratios import Interval, rounded
from online.runtime.table import Table

from .answer import MEASURED, Headroom, Saving
from .demand import own_seconds
from .payers import PERCENTILES, length_classes, percentiles, worst_stretches
from .runs import CurvePoint, PolicyRun

DECIMALS = 3
"""Of seconds; shares in per cent have one."""

NOTHING = ""

MEMORY, LOAD = "With another memory", "With arrivals slower or faster"
"""Titles of the curves."""


NAMED = 4
"""Computations not done that are named."""

BEST_POSSIBLE = (
    "Best possible: the least mean latency of every scheduler of these requests in seconds, "
    "clairvoyant or not, that may pause, chunk, preempt or idle; an interval, rounded outwards. "
    "It is certified for the batch time stated, not for the machine."
)
TOO_SLOW = (
    "but the log measured less than this batch time lets any scheduler have: it is too slow for "
    "this machine"
)
HEADROOM = (
    "Headroom: the mean latency {today} less the best possible. A policy's share of it is what it "
    "saves of that, below 0 where it loses."
)


def seconds(value: Fraction | float | Interval | None) -> str:
    """A figure in seconds; an interval is rounded outwards."""
    if value is None:
        return NOTHING
    return value.text(DECIMALS) if isinstance(value, Interval) else rounded(value, DECIMALS)


def per_cent(value: Fraction | float | Interval | None) -> str:
    """A share in per cent."""
    if value is None:
        return NOTHING
    if isinstance(value, Interval):
        ends = (value.lower, value.upper)
        return Interval(*(None if end is None else 100 * end for end in ends)).text(1)
    return rounded(100 * value, 1)


def sentence(found: Headroom) -> str:
    """The answer in a sentence."""
    if not found.savings:
        return f"No answer: {_why_not(found)}."
    told = [one for one in found.savings if one.today != MEASURED or not found.contradicts]
    if not told:
        return f"No answer: {_why_not(found)}; {TOO_SLOW}."
    words = [_saved(one) for one in told]
    # Policies are simulated: what they get is of what is simulated too, where that ended.
    saving = told[-1]
    rivals = [run for run in found.completed if run.policy != found.baseline]
    if saving.seconds.upper is None or saving.seconds.upper > 0:
        for lengths, matching in (("exact", 0.0), ("predicted", found.error)):
            best = _least([run for run in rivals if run.error == matching])
            if best is not None and best.mean_latency is not None:
                part = per_cent(saving.part(best.mean_latency))
                words.append(f"{best.policy} with {lengths} output lengths gets {part} % of that")
            if not found.error:
                break
    if found.contradicts:
        words.append(TOO_SLOW)
    whole = "; ".join(words)
    return f"{whole[0].upper()}{whole[1:]}."


def _saved(saving: Saving) -> str:
    name = "measured" if saving.today == MEASURED else f"of {saving.today}, simulated,"
    mean, saved, share = seconds(saving.mean_latency), seconds(saving.seconds), saving.share
    return (
        f"of the mean latency {name} of {mean} s any scheduler could have saved {saved} s, "
        f"which is {per_cent(share)} %"
    )


def _why_not(found: Headroom) -> str:
    if found.best is None:
        return found.no_best or "there was no time to find the best possible"
    reasons = (run.reason for run in found.runs if (run.policy, run.error) == (found.baseline, 0))
    return f"{found.baseline} did not end: {next(reasons, None) or 'there was no time for it'}"


def _least(runs: Sequence[PolicyRun]) -> PolicyRun | None:
    return min(runs, key=lambda run: run.mean_latency or Fraction(0), default=None)


def fields(found: Headroom, facts: dict[str, str]) -> dict[str, str]:
    """What is being talked about, by name; ``facts`` are what the caller knows of it."""
    workload = found.workload
    span = float(workload.arrival_times[-1] - workload.arrival_times[0])
    prompts, outputs = (
        f"{np.mean(column):.1f} on average, at most {int(np.max(column))} tokens"
        for column in (workload.prompt_lengths, workload.output_lengths)
    )
    return {
        "requests": str(len(workload)),
        **facts,
        "arrivals over": f"{span:.1f} s",
        "prompts": prompts,
        "outputs": outputs,
        "memory limit M": f"{workload.memory_limit} tokens{_rule(workload.memory_rule)}",
        "load": "all arrive at once"
        if found.load is None
        else f"{found.load:.3f} machine seconds asked for in a second, at full memory",
        **_best(found),
    }


def _rule(rule: MemoryRule) -> str:
    if rule == TOKENS:
        return ""
    return f" in blocks of {rule.block_size}; tokens are stored {rule.emitted_token}"


def _best(found: Headroom) -> dict[str, str]:
    if found.best is None:
        return {"best possible": found.no_best or "there was no time for it"}
    best = found.best
    kind = "certified" if best.certified else "not certified"
    return {
        "best possible mean latency": f"{seconds(best.mean_latency)} s",
        "lower end": f"no scheduler is below it ({best.bound}, {kind})",
        "upper end": f"a schedule is known ({best.schedule})",
    }


def savings_table(found: Headroom) -> Table:
    """What any scheduler could have saved."""
    best = found.best
    rows = [
        (
            "measured in the log" if one.today == MEASURED else f"{one.today}, simulated",
            *(seconds(one.mean_latency), seconds(best.mean_latency if best else None)),
            *(seconds(one.seconds), per_cent(one.share)),
        )
        for one in found.savings
    ]
    columns = (
        *("today", "mean latency, s", "best possible, s"),
        *("could be saved, s", "could be saved, %"),
    )
    text, main = frozenset({"today"}), (columns[0], *columns[:0:-1])
    return Table("What any scheduler could have saved", columns, tuple(rows), text, main)


def policies_table(found: Headroom) -> Table:
    """Every policy: its latency, and the share of the headroom it gets."""
    savings = found.savings
    shares = [
        "headroom, %" if one.today != MEASURED else "headroom on measured, %" for one in savings
    ]
    exact = [run for run in found.runs if not run.error]
    predicted = {run.policy: run for run in found.runs if run.error}
    failed = any(run.reason for run in found.runs)
    columns = (
        *("policy", "mean latency, s", "over best possible", *shares, "p50, s", "p99, s"),
        "first token, s",
        *(f"predicted: {name}" for name in ("mean latency, s", *shares) if predicted),
        *(("why not",) if failed else ()),
    )
    rows = []
    for run in sorted(exact, key=_by_latency):
        other = predicted.get(run.policy)
        cells = (run.policy, *_policy_cells(run, found), *_latency_cells(run))
        if predicted:
            told = () if other is None else _policy_cells(other, found)
            # What it is over the best possible says the same once more.
            cells += (*told[:1], *told[2:]) if told else (NOTHING,) * (1 + len(savings))
        why = [one.reason for one in (run, other) if one is not None and one.reason]
        rows.append((*cells, *((why[0] if why else NOTHING,) if failed else ())))
    title = "Policies, and the share of the headroom each gets"
    # The simulated baseline comes last: it compares like with like.
    best_first = shares[::-1]
    predictions = [f"predicted: {name}" for name in best_first]
    main = ("policy", "mean latency, s", *best_first, *predictions, "why not")
    text = frozenset({"policy", "why not"})
    return Table(title, columns, tuple(rows), text, main, frozenset({"why not"}))


def _by_latency(run: PolicyRun) -> tuple[bool, Fraction]:
    return run.mean_latency is None, run.mean_latency or Fraction(0)


def _policy_cells(run: PolicyRun, found: Headroom) -> tuple[str, ...]:
    """Mean latency, ratio to the best possible, shares of the headroom."""
    mean, savings = run.mean_latency, found.savings
    if mean is None:
        return (NOTHING,) * (2 + len(savings))
    ratio = NOTHING
    if found.best is not None:
        best = found.best.mean_latency
        ratio = Interval.of_quotient(mean, best.upper, best.lower).text(DECIMALS)
    return seconds(mean), ratio, *(per_cent(one.part(mean)) for one in savings)


def _latency_cells(run: PolicyRun) -> tuple[str, ...]:
    if run.latencies is None or run.first_tokens is None:
        return (NOTHING,) * 3
    return (
        *(seconds(float(one)) for one in np.percentile(run.latencies, (50, 99))),
        seconds(float(run.first_tokens.mean())),
    )


def shown(found: Headroom) -> list[PolicyRun]:
    """The runs that are looked into: today's, and the best of those with exact lengths."""
    today = found.run(found.baseline)
    rival = _least([run for run in found.completed if not run.error])
    return list(dict.fromkeys(run for run in (today, rival) if run is not None))


def _latencies(found: Headroom) -> list[tuple[str, FloatArray]]:
    """Those of each request, measured and of the runs shown, by name."""
    columns: list[tuple[str, FloatArray]] = []
    if found.measured is not None:
        columns.append((MEASURED, found.measured.latencies))
    runs = shown(found)
    return columns + [(run.policy, run.latencies) for run in runs if run.latencies is not None]


def stretches_table(found: Headroom) -> Table | None:
    """When the waiting happens: the worst stretches of today's policy."""
    today = found.run(found.baseline)
    if today is None or today.over_time is None:
        return None
    over_time = today.over_time
    width = over_time.seconds
    total = float(over_time.waiting.sum())
    arrivals = np.histogram(
        found.workload.arrival_times, np.arange(len(over_time.queue) + 1) * width
    )[0]
    rows = [
        (
            *(f"{one * width:g} to {(one + 1) * width:g}", str(int(arrivals[one]))),
            *(rounded(float(over_time.queue[one]), 1), per_cent(float(over_time.memory[one]))),
            per_cent(float(over_time.waiting[one]) / total),
        )
        for one in worst_stretches(over_time)
    ]
    if not rows:
        return None
    return Table(
        f"When requests wait longest: stretches of {width:g} s under {today.policy}, simulated",
        ("seconds", "arrivals", "mean queue", "memory held, %", "of all waiting, %"),
        tuple(rows),
    )


def classes_table(found: Headroom) -> Table | None:
    """Which requests pay: by output length."""
    columns = _latencies(found)
    if not columns:
        return None
    own = own_seconds(found.workload, found.batch_time)
    first = columns[0][1]
    waited = np.maximum(0.0, first - own)
    rows = []
    for each in length_classes(found.workload):
        members = each.members
        rows.append(
            (
                *(f"{each.shortest} to {each.longest}", str(len(members))),
                seconds(float(own[members].mean())),
                *(seconds(float(column[members].mean())) for _, column in columns),
                per_cent(float(waited[members].sum() / waited.sum()) if waited.any() else 0.0),
            )
        )
    return Table(
        "Which requests pay, by output length: mean latency",
        (
            *("output tokens", "requests", "alone, s"),
            *(f"{name}, s" for name, _ in columns),
            f"of all waiting ({columns[0][0]}), %",
        ),
        tuple(rows),
    )


def percentiles_table(found: Headroom) -> Table | None:
    """The same by percentile of the latency."""
    columns = _latencies(found)
    if not columns:
        return None
    found_of = [percentiles(column) for _, column in columns]
    rows = [
        ("longest" if each == 100 else f"p{each}", *(seconds(one[place]) for one in found_of))
        for place, each in enumerate(PERCENTILES)
    ]
    names = tuple(f"{name}, s" for name, _ in columns)
    return Table(
        "Latency by percentile", ("percentile", *names), tuple(rows), frozenset({"percentile"})
    )


def curve_table(found: Headroom, points: Sequence[CurvePoint], title: str) -> Table | None:
    """How the answer changes with memory or load."""
    if len(points) < 2:
        return None
    names = tuple(dict.fromkeys((found.baseline, found.challenger)))
    rows = []
    for one in points:
        means = {run.policy: run.mean_latency for run in one.runs}
        today = means.get(found.baseline)
        best = None if one.best is None else one.best.mean_latency
        saving = None
        if best is not None and today is not None:
            saving = Saving(found.baseline, today, best.below(today))
        rows.append(
            (
                *(str(one.memory_limit), f"{one.faster:g}"),
                NOTHING if one.load is None else f"{one.load:.3f}",
                seconds(best),
                *(seconds(means.get(name)) for name in names),
                *((seconds(saving.seconds), per_cent(saving.share)) if saving else ("", "")),
            )
        )
    columns = (
        *("M, tokens", "arrivals x", "load", "best possible, s"),
        *(f"{name}, s" for name in names),
        *("could be saved, s", "could be saved, %"),
    )
    main = (*columns[:2], columns[-1], *columns[3:-1], columns[2])
    return Table(title, columns, tuple(rows), main_columns=main)


def tables(found: Headroom) -> list[Table]:
    """All of them, in order."""
    made = [
        savings_table(found) if found.savings else None,
        policies_table(found) if found.runs else None,
        stretches_table(found),
        classes_table(found),
        percentiles_table(found),
        curve_table(found, found.memory_curve, MEMORY),
        curve_table(found, found.load_curve, LOAD),
    ]
    return [table for table in made if table is not None]


def notes(found: Headroom) -> list[str]:
    """What a reader has to know about the figures."""
    today = "measured" if found.measured is not None else f"of {found.baseline}, simulated,"
    said = [BEST_POSSIBLE, HEADROOM.format(today=today)]
    if any(run.error for run in found.runs):
        said.append(
            "Predicted: every policy is told output lengths that are off by "
            f"{100 * found.error:g} % of the truth in the mean (lognormal, the median right)."
        )
    if found.measured is not None:
        said.append(
            f"Shares of the headroom are of that on the measured latency, and of that on "
            f"{found.baseline} simulated with the same batch time, which compares like with like."
        )
    if found.contradicts:
        said.append(
            "The log measured less than this batch time lets any scheduler have: the batch time "
            "is too slow for this machine, and what is said of the measured latency means nothing."
        )
    if found.unfinished:
        why = "interrupted" if found.interrupted else "time ran out"
        named = "; ".join(found.unfinished[:NAMED])
        more = len(found.unfinished) - NAMED
        said.append(f"Not done, {why}: {named}{f'; {more} more' if more > 0 else ''}.")
    return said
