"""The answer as tables: what the command prints and the page shows, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from instances.arrays import FloatArray
from instances.problem.memory_rule import TOKENS, MemoryRule
from online.comparison.ratios import Interval, rounded, rounded_down, rounded_up
from online.runtime.table import Table

from .answer import MEASURED, NEGLIGIBLE, Headroom, Saving
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
HEADROOM = (
    "Headroom: the mean latency {today} less the best possible. A policy's share of it is what it "
    "saves of that, below 0 where it loses."
)

LITTLE = Fraction(1, 10)
"""Share of a mean latency: where no scheduler could save more, there is next to nothing to gain."""


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
    """Answer in a few plain sentences: what is there today, what could be saved, who saves it."""
    best, measured = found.best, found.measured
    if best is not None and measured is not None and found.contradicts:
        return (
            f"The log's own mean latency is {seconds(measured.mean_latency)} s, but with this "
            "batch time no scheduler could reach less than "
            f"{_at_least(best.mean_latency.lower)} s: the batch time is too slow for the machine "
            "of the log, or the memory limit too small. So no savings are given."
        )
    savings = found.savings
    if not savings:
        return f"No answer: {_why_not(found)}."
    words = []
    for saving in savings:
        today = "The log" if saving.today == MEASURED else f"{saving.today} (simulated)"
        words.append(f"{today} has a mean latency of {seconds(saving.mean_latency)} s.")
        # The table has both; of the simulated one the answer says only if there is little to gain.
        if saving is savings[0] or saving.is_negligible:
            words.append(_could_be_saved(saving))
    # Policies are simulated: what they save is of what is simulated too, where that ended.
    if saving.today != MEASURED and not saving.is_negligible:
        words += _policies_save(found, saving)
    return " ".join(words)


def _could_be_saved(saving: Saving) -> str:
    """Tell what no scheduler could save more than, and what a known schedule saves."""
    low = saving.seconds.lower or Fraction(0)
    # Whatever a scheduler does, it saves no more than all of it.
    high = saving.mean_latency if saving.seconds.upper is None else saving.seconds.upper
    share = high / saving.mean_latency
    limit = (
        f"scheduler could save more than {rounded_up(high, DECIMALS)} s "
        f"({rounded_up(100 * share, 1)} %) of it"
    )
    if not saving.is_negligible:
        known = f"{_at_least(low)} s ({rounded_down(100 * low / saving.mean_latency, 1)} %)"
        return f"No {limit}; a schedule that saves {known} is known."
    if share <= LITTLE:
        return f"There is next to nothing to gain: no {limit}."
    return f"No {limit}; no schedule that saves {float(100 * NEGLIGIBLE):g} % is known."


def _policies_save(found: Headroom, saving: Saving) -> list[str]:
    """Tell what the best policy saves and does to the tail, by what it is told of the lengths."""
    today, words = found.run(saving.today), []
    told = [(0.0, "exact output lengths")]
    if found.error:
        told.append((found.error, f"output lengths off by {100 * found.error:g} %"))
    for error, lengths in told:
        rivals = [run for run in found.completed if run.policy != found.baseline]
        best = _least([run for run in rivals if run.error == error])
        if today is None or best is None or best.mean_latency is None:
            continue
        saved = saving.mean_latency - best.mean_latency
        if saved <= 0:
            words.append(f"No other policy saves any of it when told {lengths}.")
            continue
        words.append(
            f"The policy {best.policy}, told {lengths}, saves {seconds(saved)} s, which is "
            f"{per_cent(saving.part(best.mean_latency))} % of what could be saved, "
            f"{_tail(today, best)}."
        )
    return words


def _tail(today: PolicyRun, other: PolicyRun) -> str:
    """Tell what a policy does to the slowest requests."""
    if today.latencies is None or other.latencies is None:
        return "with a tail that is not known"
    worse = []
    for name, percentile in (("p99 latency", 99), ("the longest latency", 100)):
        before, after = (
            rounded(float(np.percentile(run.latencies, percentile)), DECIMALS)
            for run in (today, other)
            if run.latencies is not None
        )
        if float(after) > float(before):
            worse.append(f"{name} from {before} to {after} s")
    if worse:
        return f"but takes {' and '.join(worse)}"
    return "and makes neither p99 nor the longest latency worse"


def _at_least(value: Fraction | None) -> str:
    return rounded_down(value or 0, DECIMALS)


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


def savings_table(found: Headroom) -> Table | None:
    """What no scheduler could save more than; nothing where the log contradicts the batch time."""
    if not found.savings or found.contradicts:
        return None
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
    return Table("What the best scheduler could have saved", columns, tuple(rows), text, main)


def policies_table(found: Headroom) -> Table:
    """Every policy that has a result: its latency, and the share of the headroom it gets."""
    shares = [
        "headroom, %" if one.today != MEASURED else "headroom on measured, %"
        for one in found.divisible
    ]
    by_latency = sorted(found.completed, key=lambda run: (run.error, run.mean_latency or 0))
    predicted = any(run.error for run in found.completed)
    columns = (
        *("policy", "mean latency, s", "over best possible", *shares, "p50, s", "p99, s"),
        "first token, s",
        *(f"predicted: {name}" for name in ("mean latency, s", *shares) if predicted),
    )
    rows = []
    for policy in dict.fromkeys(run.policy for run in by_latency):
        exact = found.run(policy)
        cells = (policy, *_policy_cells(exact, found), *_latency_cells(exact))
        if predicted:
            mean, _, *parts = _policy_cells(found.run(policy, found.error), found)
            # What it is over the best possible says the same once more.
            cells += (mean, *parts)
        rows.append(cells)
    title = "Policies" + (", and the share of the headroom each gets" if shares else "")
    # The simulated baseline comes last: it compares like with like.
    best_first = shares[::-1]
    predictions = [f"predicted: {name}" for name in best_first]
    main = ("policy", "mean latency, s", *best_first, *predictions)
    return Table(title, columns, tuple(rows), frozenset({"policy"}), main)


def failures_table(found: Headroom) -> Table | None:
    """Policies without a result, and why."""
    rows = tuple(
        (run.policy, told(run.error), run.reason or "unknown")
        for run in found.runs
        if run.mean_latency is None
    )
    if not rows:
        return None
    columns = ("policy", "output lengths", "why not")
    title, text = "Policies without a result", frozenset(columns)
    return Table(title, columns, rows, text, prose_columns=frozenset({"why not"}))


def told(error: float) -> str:
    """Say what a run was told of the output lengths."""
    return f"predicted, off by {100 * error:g} %" if error else "exact"


def _policy_cells(run: PolicyRun | None, found: Headroom) -> tuple[str, ...]:
    """Mean latency, ratio to the best possible, shares of the headroom."""
    shared = found.divisible
    if run is None or run.mean_latency is None:
        return (NOTHING,) * (2 + len(shared))
    mean = run.mean_latency
    ratio = NOTHING
    if found.best is not None:
        best = found.best.mean_latency
        ratio = Interval.of_quotient(mean, best.upper, best.lower).text(DECIMALS)
    return seconds(mean), ratio, *(per_cent(one.part(mean)) for one in shared)


def _latency_cells(run: PolicyRun | None) -> tuple[str, ...]:
    if run is None or run.latencies is None or run.first_tokens is None:
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
    if len(columns) <= found.contradicts:
        return None
    own = own_seconds(found.workload, found.batch_time)
    # Latencies below those of every schedule under this batch time do not tell who waits.
    whose, latencies = (columns[1:] if found.contradicts else columns)[0]
    waited = np.maximum(0.0, latencies - own)
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
            f"of all waiting ({whose}), %",
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
        saved: tuple[str, ...] = () if found.contradicts else (NOTHING, NOTHING)
        if saved and best is not None and today is not None:
            saving = Saving(found.baseline, today, best.below(today))
            saved = seconds(saving.seconds), per_cent(saving.share)
        rows.append(
            (
                *(str(one.memory_limit), f"{one.faster:g}"),
                NOTHING if one.load is None else f"{one.load:.3f}",
                seconds(best),
                *(seconds(means.get(name)) for name in names),
                *saved,
            )
        )
    columns = (
        *("M, tokens", "arrivals x", "load", "best possible, s"),
        *(f"{name}, s" for name in names),
        *(() if found.contradicts else ("could be saved, s", "could be saved, %")),
    )
    main = (*columns[:2], columns[-1], *columns[3:-1], columns[2])
    return Table(title, columns, tuple(rows), main_columns=main)


def tables(found: Headroom) -> list[Table]:
    """All of them, in order."""
    made = [
        savings_table(found),
        policies_table(found) if found.completed else None,
        failures_table(found),
        stretches_table(found),
        classes_table(found),
        percentiles_table(found),
        curve_table(found, found.memory_curve, MEMORY),
        curve_table(found, found.load_curve, LOAD),
    ]
    return [table for table in made if table is not None]


def notes(found: Headroom) -> list[str]:
    """What a reader has to know about the figures."""
    said = [BEST_POSSIBLE]
    shared = [saving.today for saving in found.divisible]
    if shared:
        today = "measured" if shared[0] == MEASURED else f"of {found.baseline}, simulated,"
        said.append(HEADROOM.format(today=today))
    elif found.savings and not found.contradicts:
        said.append(
            "No policy's share of what could be saved is given: no schedule is known that saves "
            f"{float(100 * NEGLIGIBLE):g} % of the mean latency."
        )
    if any(run.error for run in found.runs):
        said.append(
            "Predicted: every policy is told output lengths that are off by "
            f"{100 * found.error:g} % of the truth in the mean (lognormal, the median right)."
        )
    if len(shared) > 1:
        said.append(
            f"Shares of the headroom are of that on the measured latency, and of that on "
            f"{found.baseline} simulated with the same batch time, which compares like with like."
        )
    if found.unfinished:
        why = "interrupted" if found.interrupted else "time ran out"
        named = "; ".join(found.unfinished[:NAMED])
        more = len(found.unfinished) - NAMED
        said.append(f"Not done, {why}: {named}{f'; {more} more' if more > 0 else ''}.")
    return said
