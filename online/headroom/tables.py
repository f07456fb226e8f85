"""The answer as tables: what the command prints and the page shows, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from instances.arrays import FloatArray
from instances.problem.memory_rule import TOKENS
from online.tables import Table, table_of
from online.trials.intervals import Interval, rounded, rounded_down, rounded_up

from .answer import (
    LARGE_DIFFERENCE,
    NEGLIGIBLE,
    CurvePoint,
    Headroom,
    PolicyRun,
    Saving,
    percentile,
)
from .cells import DECIMALS, NOTHING, per_cent, seconds, told
from .fleet_tables import (
    LOSSES,
    REPLICAS,
    behind,
    blame_sentences,
    capacity_sentences,
    fleet_tables,
)
from .on_time import MEASURED
from .on_time_tables import (
    anybody,
    on_time_fields,
    on_time_notes,
    on_time_sentences,
    on_time_tables,
    too_slow,
)
from .waiting import length_classes, own_seconds

MEMORY, LOAD = "With another memory", "With arrivals slower or faster"
"""Titles of the curves."""

PERCENTILES = (50, 90, 95, 99, 100)

NAMED = 4
"""Computations not done that are named."""

BEST_POSSIBLE = (
    "Best possible: the least mean latency of every scheduler of these requests in seconds, "
    "clairvoyant or not, that may pause, chunk, preempt or idle, and processes prompt and tokens "
    "again after a preemption; an interval, rounded outwards. It is certified for the batch time "
    "stated, not for the machine."
)
HEADROOM = (
    "Headroom: the mean latency of {today}, simulated, less the best possible. A policy's share of "
    "it is the part that it saves, below 0 where it loses."
)
REUSED = (
    "Prompts: the lower ends leave out all tokens that any other request could supply, so no cache "
    "of prefixes refutes them. Policies and known schedules process every prompt whole."
)

NO_HASHES = (
    "The log does not show shared prefixes, so every limit is for schedulers without a prefix "
    "cache."
)
REUSE = (
    "By the hashes of the log, a prefix cache could supply up to {part} % of the prompt tokens. "
    "The schedulers simulated process every prompt whole."
)

EVERY_ROUTER = "behind every router of every scheduler"
MORE_REPLICAS = " A further replica may stay empty, so lower bounds hold for fewer replicas too."

CARRIED = (
    "At other memories and loads: an interval uses what is known at every point. A schedule also "
    "fits in more memory, and with arrivals c times as slow its latencies are at most c times as "
    "long, so lower bounds hold for less memory too, and at faster arrivals divided by c. Pictures "
    "join the intervals by straight lines, which prove nothing between the points."
)

WIDE = Fraction(1, 2)
"""Length of an interval of a share: of a longer one only the lower end is told."""


def sentence(found: Headroom) -> str:
    """Answer in a few plain sentences: what is there today, what could be saved, who saves it."""
    return " ".join(sentences(found))


def sentences(found: Headroom) -> list[str]:
    """Write the same one by one: doubts, reuse of prompts, requests on time, latency."""
    served = [*on_time_sentences(found), *capacity_sentences(found)]
    reuse, last = _of_reuse(found), [NO_HASHES] if found.shared_tokens is None else []
    return [*_of_the_log(found), *reuse, *served, *_of_latency(found), *last]


def _of_the_log(found: Headroom) -> list[str]:
    """Write which requests the answer is about, whose their arrivals are, and what is doubted."""
    count, words = len(found.workload), []
    if found.left_out:
        all_of = count + found.left_out
        words.append(
            f"Only the first {count:,} of {all_of:,} requests are in this answer, about as many as "
            "the time limit suffices for: give a longer one, or choose a window, as in "
            f"'{found.workload.name}(start_seconds=0, max_requests={count})'."
        )
    most = found.concurrency
    if found.made_up and most is not None:
        words.append(
            f"The log has no start times. Its closed loop of at most {most} requests at once was "
            f"played under {found.baseline}: a request arrives when another one ends. All figures, "
            "limits too, hold for these arrivals only."
        )
    elif found.made_up:
        spread = "spread evenly" if found.workload.arrival_times.any() else "all put at second 0"
        words.append(
            f"The log has no start times: the requests are {spread}, and all figures are for these "
            "arrivals. Give max_concurrency=N if at most N requests were sent at once."
        )
    elif most is not None:
        words.append(
            f"The log is of a closed loop: a request was sent when another one ended, at most "
            f"{most} at once. With a better scheduler they would have been sent earlier; here they "
            "arrive as in the log."
        )
    off = found.difference
    if off is not None and abs(off) > LARGE_DIFFERENCE and not found.contradicts:
        words.append(_difference(found, off))
    return words


def _difference(found: Headroom, off: Fraction) -> str:
    """Write by how much simulation and log differ, and beyond a tenth what it may come from."""
    assert found.measured is not None
    measured = found.measured.mean_latency
    part = f"{rounded(100 * abs(off), 1)} % {'above' if off > 0 else 'below'} it"
    part = "within 0.1 % of it" if abs(off) < Fraction(1, 1000) else part
    said = f"The log has a mean latency of {seconds(measured)} s, and {found.baseline} simulated is"
    said += f" {part}"
    if abs(off) <= LARGE_DIFFERENCE:
        return f"{said}."
    if found.made_up:
        return f"{said}: arrivals are made up, so the two cannot be compared."
    if off > 0:
        causes = "a batch time that is too slow, a memory limit that is too small"
        causes += ", prompts that were reused"
    else:
        causes = "time outside the engine, such as network, tokenisation and queues before it, a "
        causes += "batch time that is too fast, a memory limit that is too large"
    unit = "latencies in another unit than seconds, " if not 0.02 < 1 + off < 50 else ""
    causes += ", or settings or a scheduler other than those simulated"
    today, first = found.run(found.baseline), found.measured.first_tokens
    before = ""
    if first is not None and today is not None and today.first_tokens is not None:
        early = float(np.mean(today.first_tokens) - np.mean(first))
        before = f", and {early:+.3f} s to the first token"
    said += f" ({float(off * measured):+.3f} s{before}). This difference is not a saving."
    return f"{said} It may come from {unit}{causes}."


def _of_reuse(found: Headroom) -> list[str]:
    """Write how much of the prompts a prefix cache could supply, where the log tells."""
    shared = found.shared_tokens
    if shared is None:
        return []
    if not shared.any():
        return ["The hashes of the log show no shared prefixes."]
    part = per_cent(Fraction(int(shared.sum()), int(found.workload.prompt_lengths.sum())))
    return [REUSE.format(part=part)]


def _of_latency(found: Headroom) -> list[str]:
    best, measured, off = found.best, found.measured, found.difference
    if best is not None and measured is not None and found.contradicts:
        said = (
            f"The log's own mean latency is {seconds(measured.mean_latency)} s, but with this "
            f"batch time no {anybody(found)} could reach less than "
            f"{_at_least(best.mean_latency.lower)} s: {too_slow(found)}. So no savings are given."
        )
        return [said]
    saving = found.saving
    if saving is None:
        return [f"No answer: {_why_not(found)}."]
    today = f"{found.baseline}{behind(found)} (simulated)"
    has = f"{today} has a mean latency of {seconds(saving.mean_latency)} s."
    words = [f"{has} {_could_be_saved(found, saving)}"]
    if off is not None and abs(off) <= LARGE_DIFFERENCE:
        words.append(_difference(found, off))
    if not saving.is_negligible:
        words += blame_sentences(found) + _policies_save(found, saving)
    return words


def _could_be_saved(found: Headroom, saving: Saving) -> str:
    """Tell what nobody could save more than, with a prefix cache too, and what a schedule saves."""
    low, latency, who = saving.seconds.lower or Fraction(0), saving.mean_latency, anybody(found)
    # Whatever a scheduler does, it saves no more than all of it.
    most = latency if saving.seconds.upper is None else saving.seconds.upper
    high, whole, reused = most, "", ""
    without = _most_without_reuse(found, saving)
    if found.shared_tokens is None:
        whole = "without a prefix cache, "
    elif without is not None:
        high, whole = without, "without a prefix cache, "
        reused = f" With one, no {who} could save more than {_most(most, latency)}, the reuse of "
        reused += "prompts included."
    limit = f"no {who} could save more than {_most(high, latency)} of it"
    off = found.difference
    if off is not None and abs(off) > LARGE_DIFFERENCE:
        whole = f"in this simulation, {whole}"
    if rounded_up(high, DECIMALS) == _at_least(low) and low:
        known = f"{seconds(low)} s ({per_cent(low / latency)} %)"
        said = f"{whole}no {who} could save more than the {known} of it that a known schedule saves"
    elif not saving.is_negligible:
        known = f"{_at_least(low)} s ({rounded_down(100 * low / latency, 1)} %)"
        said = f"{whole}{limit}; a schedule that saves {known} is known"
    else:
        said = f"{whole}{limit}; no schedule that saves {float(100 * NEGLIGIBLE):g} % is known"
    return f"{said[0].upper()}{said[1:]}.{reused}"


def _most_without_reuse(found: Headroom, saving: Saving) -> Fraction | None:
    """Return what no scheduler without a prefix cache saves more than, where prompts share one."""
    if found.best is None or found.best.without_reuse is None:
        return None
    return max(Fraction(0), saving.mean_latency - found.best.without_reuse)


def _most(saved: Fraction, latency: Fraction) -> str:
    """Write an upper end of a saving, rounded up."""
    return f"{rounded_up(saved, DECIMALS)} s ({rounded_up(100 * saved / latency, 1)} %)"


def _policies_save(found: Headroom, saving: Saving) -> list[str]:
    """Tell what the best policy saves and does to the tail, by what it is told of the lengths."""
    today, words, before = found.run(found.baseline), [], ("", "")
    without, whole = _most_without_reuse(found, saving), ""
    if without is not None:
        whole = " without one"
        saving = replace(saving, seconds=Interval(saving.seconds.lower, without))
    for error in dict.fromkeys((0.0, found.error)):
        lengths = f"output lengths off by {100 * error:g} %" if error else "exact output lengths"
        rivals = rivals_of(found, error)
        if today is None or not rivals:
            continue
        fastest = rivals[0]
        saved = saving.mean_latency - (fastest.mean_latency or 0)
        if saved <= 0:
            others = f"none of the {len(rivals)} other policies simulated has a shorter"
            others = others if len(rivals) > 1 else f"{fastest.policy} has no shorter"
            words.append(f"Told {lengths}, {others} mean latency than {found.baseline}.")
            continue
        saves = (
            f"saves {seconds(saved)} s ({per_cent(saved / saving.mean_latency)} %), "
            f"{_share_saved(saving.part(fastest.mean_latency or Fraction(0)))} % of what could be "
            f"saved{whole}, {_tail(today, fastest)}"
        )
        if fastest.policy != before[0]:
            words.append(f"The policy {fastest.policy}, told {lengths}, {saves}.")
        elif saves == before[1]:
            words.append(f"With {lengths} nothing changes.")
        else:
            words.append(f"Told {lengths}, it {saves}.")
        before = fastest.policy, saves
    return words


def _share_saved(part: Interval) -> str:
    """Write which share of what could be saved a policy saves; of a wide interval the lower end."""
    low, high = part.lower or Fraction(0), part.upper
    if high is None or high - low > WIDE:
        return f"at least {rounded_down(100 * low, 1)}"
    least, most = rounded_down(100 * low, 1), rounded_up(100 * high, 1)
    return least if low == high else f"between {least} and {most}"


def _tail(today: PolicyRun, other: PolicyRun) -> str:
    """Tell what a policy does to the slowest requests."""
    if today.latencies is None or other.latencies is None:
        return "with a tail that is not known"
    worse = []
    for name, percent in (("p99 latency", 99), ("the longest latency", 100)):
        before, after = (
            rounded(percentile(column, percent), DECIMALS)
            for column in (today.latencies, other.latencies)
        )
        if float(after) > float(before):
            worse.append(f"{name} from {before} to {after} s")
    if worse:
        return f"but takes {' and '.join(worse)}"
    return "and makes neither p99 nor the longest latency worse"


def _at_least(value: Fraction | None) -> str:
    return rounded_down(value or 0, DECIMALS)


def _why_not(found: Headroom) -> str:
    late = "give a longer time limit, or fewer requests, as in "
    late = f"there was no time for it: {late}'{found.workload.name}(max_requests=100)'"
    reasons = (run.reason for run in found.runs if (run.policy, run.error) == (found.baseline, 0))
    if found.best is None:
        return f"the best possible is not known: {found.no_best or late}"
    return f"{found.baseline} did not end: {next(reasons, None) or late}"


def rivals_of(found: Headroom, error: float) -> list[PolicyRun]:
    """List the policies told such output lengths beside the baseline, the fastest first."""
    others = [run for run in found.completed if run.policy != found.baseline]
    told = [run for run in others if run.error == error]
    return sorted(told, key=lambda run: run.mean_latency or 0)


def fields(found: Headroom, facts: dict[str, str]) -> dict[str, str]:
    """Describe the requests and the best possible by name; ``facts`` are what the caller knows."""
    workload, best, rule = found.workload, found.best, found.workload.memory_rule
    span = float(workload.arrival_times[-1] - workload.arrival_times[0])
    prompts, outputs = (
        f"{np.mean(column):.1f} on average, at most {int(np.max(column))} tokens"
        for column in (workload.prompt_lengths, workload.output_lengths)
    )
    in_blocks = (
        ""
        if rule == TOKENS
        else f" in blocks of {rule.block_size}; tokens are stored {rule.emitted_token}"
    )
    on = f" on each of {found.replicas} replicas" if found.routers else ""
    off = None if found.difference is None else float(100 * found.difference)
    described = {
        "requests": str(len(workload)),
        **facts,
        "arrivals over": f"{span:.1f} s",
        "prompts": prompts,
        "outputs": outputs,
        "memory limit M": f"{workload.memory_limit} tokens{on}{in_blocks}",
        "load": "all arrive at once"
        if found.load is None
        else f"{found.load:.3f} machine seconds asked for in a second{on}, at full memory",
        **({} if off is None else {"simulated against the log": f"mean latency {off:+.1f} %"}),
        **on_time_fields(found),
    }
    if best is None:
        return {**described, "best possible": found.no_best or "there was no time for it"}
    kind = "certified" if best.certified else "not certified"
    return {
        **described,
        "best possible mean latency": f"{seconds(best.mean_latency)} s",
        "lower end": f"no scheduler is below it ({best.bound}, {kind})",
        "upper end": f"a schedule is known ({best.schedule})",
    }


def tables(found: Headroom) -> dict[str, Table]:
    """Make every table that has rows, in order, by the name of its section."""
    made = {
        "savings": _savings(found),
        **fleet_tables(found),
        "policies": _policies(found),
        "failures": _failures(found),
        "stretches": _stretches(found),
        "classes": _classes(found),
        "percentiles": _percentiles(found),
        "replicas": _curve(found, found.replica_curve, REPLICAS),
        "memory": _curve(found, found.memory_curve, MEMORY),
        "load": _curve(found, found.load_curve, LOAD),
    }
    made = {**on_time_tables(found), **made}
    return {name: table for name, table in made.items() if table.rows}


def _savings(found: Headroom) -> Table:
    """Show the most that could be saved."""
    saving, rows = found.saving, []
    if saving is not None and found.best is not None:
        row = {
            "today": f"{found.baseline}, simulated",
            "mean latency, s": seconds(saving.mean_latency),
            "best possible, s": seconds(found.best.mean_latency),
            "could be saved, s": seconds(saving.seconds),
            "could be saved, %": per_cent(saving.share),
        }
        rows.append(row)
    main = ["today", *list(rows[0])[:0:-1]] if rows else []
    best = "the best router and schedulers" if found.routers else "the best scheduler"
    return table_of(f"What {best} could have saved", rows, ["today"], main, ["today"])


def _policies(found: Headroom) -> Table:
    """Show every policy that has a result: its latency, and the share of the headroom it gets."""
    by_latency = sorted(found.completed, key=lambda run: (run.error, run.mean_latency or 0))
    predicted = any(run.error for run in found.completed)
    rows = []
    for policy in dict.fromkeys(run.policy for run in by_latency):
        exact, other = found.run(policy), found.run(policy, found.error)
        ratio = NOTHING
        if exact is not None and exact.mean_latency is not None and found.best is not None:
            interval = Interval.of_share(exact.mean_latency, found.best.mean_latency)
            ratio = interval.text(DECIMALS)
        mean, *shares = _gained(found, exact).items()
        columns = None if exact is None else (exact.latencies, exact.first_tokens)
        median, late, first = NOTHING, NOTHING, NOTHING
        if columns is not None and columns[0] is not None and columns[1] is not None:
            median, late = (seconds(percentile(columns[0], each)) for each in (50, 99))
            first = seconds(float(columns[1].mean()))
        row = {"policy": policy, **dict([mean]), "over best possible": ratio, **dict(shares)}
        row |= {"p50, s": median, "p99, s": late, "first token, s": first}
        if predicted:
            # What it is over the best possible says the same once more.
            gained = _gained(found, other)
            row |= {f"predicted: {name}": cell for name, cell in gained.items()}
        rows.append(row)
    best_first = list(_gained(found, None))[:0:-1]
    title = "Policies" + (", and the share of the headroom each gets" if best_first else "")
    predictions = [f"predicted: {name}" for name in best_first]
    main = ["policy", "mean latency, s", *best_first, *predictions]
    return table_of(title, rows, ["policy"], main, ["policy"])


def _gained(found: Headroom, run: PolicyRun | None) -> dict[str, str]:
    """Write the mean latency of a run and its shares of the headroom, by heading."""
    mean = None if run is None else run.mean_latency
    cells = {"mean latency, s": seconds(mean)}
    if found.divisible is not None:
        cells["headroom, %"] = NOTHING if mean is None else per_cent(found.divisible.part(mean))
    return cells


def _failures(found: Headroom) -> Table:
    """Show the policies without a result, and why."""
    rows = [
        {
            "policy": run.policy + (f" behind {run.router}" if run.router else ""),
            "output lengths": told(run.error),
            "why not": run.reason or "unknown",
        }
        for run in dict.fromkeys([*found.runs, *found.routed])
        if run.mean_latency is None
    ]
    columns = ["policy", "output lengths", "why not"]
    return table_of("Policies without a result", rows, columns, (), ["why not"])


def shown(found: Headroom) -> list[PolicyRun]:
    """Choose the runs that are looked into: today's, and the best of those with exact lengths."""
    today = found.run(found.baseline)
    exact = [run for run in found.completed if not run.error]
    rival = min(exact, key=lambda run: run.mean_latency or 0, default=None)
    return list(dict.fromkeys(run for run in (today, rival) if run is not None))


def _latencies(found: Headroom) -> dict[str, FloatArray]:
    """Collect those of each request, measured and of the runs shown, by name."""
    columns = {} if found.measured is None else {MEASURED: found.measured.latencies}
    runs = shown(found)
    return columns | {run.policy: run.latencies for run in runs if run.latencies is not None}


def _stretches(found: Headroom) -> Table:
    """Show when the waiting happens: the worst stretches of today's policy."""
    today = found.run(found.baseline)
    over_time = None if today is None else today.over_time
    if over_time is None:
        return table_of("", [])
    width = over_time.seconds
    total = float(over_time.waiting.sum())
    edges = np.arange(len(over_time.queue) + 1) * width
    arrivals = np.histogram(found.workload.arrival_times, edges)[0]
    rows = [
        {
            "seconds": f"{one * width:g} to {(one + 1) * width:g}",
            "arrivals": str(int(arrivals[one])),
            "mean queue": rounded(float(over_time.queue[one]), 1),
            "memory held, %": per_cent(float(over_time.memory[one])),
            "of all waiting, %": per_cent(float(over_time.waiting[one]) / total),
        }
        for one in over_time.worst
    ]
    title = (
        f"When requests wait longest: stretches of {width:g} s under {found.baseline}, simulated"
    )
    return table_of(title, rows)


def _classes(found: Headroom) -> Table:
    """Show which requests pay: by output length."""
    title, columns = "Which requests pay, by output length: mean latency", _latencies(found)
    # Only simulated latencies go with the seconds that a request takes alone.
    asked = [name for name in columns if name != MEASURED]
    if not asked:
        return table_of(title, [])
    own = own_seconds(found.workload)
    outputs = found.workload.output_lengths
    waited = np.maximum(0.0, columns[asked[0]] - own)
    rows = []
    for members in length_classes(found.workload):
        part = float(waited[members].sum() / waited.sum()) if waited.any() else 0.0
        rows.append(
            {
                "output tokens": f"{outputs[members].min()} to {outputs[members].max()}",
                "requests": str(len(members)),
                "alone, s": seconds(float(own[members].mean())),
                **{
                    f"{name}, s": seconds(float(column[members].mean()))
                    for name, column in columns.items()
                },
                f"of all waiting ({asked[0]}), %": per_cent(part),
            }
        )
    return table_of(title, rows)


def _percentiles(found: Headroom) -> Table:
    """Show the latencies by percentile."""
    columns = _latencies(found)
    rows = [
        {"percentile": "longest" if each == 100 else f"p{each}"}
        | {f"{name}, s": seconds(percentile(column, each)) for name, column in columns.items()}
        for each in PERCENTILES
        if columns
    ]
    return table_of("Latency by percentile", rows, ["percentile"])


def _curve(found: Headroom, points: Sequence[CurvePoint], title: str) -> Table:
    """Show how the answer changes with memory or load."""
    names = list(dict.fromkeys((found.baseline, found.challenger)))
    rows = []
    for one in points if len(points) > 1 else ():
        means = {run.policy: run.mean_latency for run in one.runs}
        today = means.get(found.baseline)
        best = None if one.best is None else one.best.mean_latency
        other = {
            REPLICAS: {"replicas": str(one.replicas)},
            MEMORY: {"M, tokens": str(one.memory_limit)},
            LOAD: {"arrivals x": f"{one.faster:g}"},
        }
        row = {
            **other[title],
            "load": NOTHING if one.load is None else f"{one.load:.3f}",
            "best possible, s": seconds(best),
            **{f"{name}, s": seconds(means.get(name)) for name in names},
        }
        if not found.contradicts:
            row |= {"could be saved, s": NOTHING, "could be saved, %": NOTHING}
            if best is not None and today is not None:
                saving = Saving(today, best.below(today))
                row["could be saved, s"] = seconds(saving.seconds)
                row["could be saved, %"] = per_cent(saving.share)
        rows.append(row)
    columns = list(rows[0]) if rows else []
    main = [*columns[:1], *columns[-1:], *columns[2:-1], *columns[1:2]]
    return table_of(title, rows, (), main)


def notes(found: Headroom) -> list[str]:
    """Say what a reader has to know about the figures."""
    said = [*on_time_notes(found), BEST_POSSIBLE]
    if found.routers:
        said = [note.replace("of every scheduler", EVERY_ROUTER) for note in said]
    if found.divisible is not None:
        said.append(HEADROOM.format(today=found.baseline))
    elif found.saving is not None:
        said.append(
            "No policy's share of what could be saved is given: no schedule is known that saves "
            f"{float(100 * NEGLIGIBLE):g} % of the mean latency."
        )
    if found.shared_tokens is not None and found.shared_tokens.any():
        said.append(REUSED)
    if found.blames:
        said.append(LOSSES)
    if found.points:
        said.append(CARRIED + (MORE_REPLICAS if found.routers else ""))
    if any(run.error for run in found.runs):
        said.append(
            "Predicted: every policy is told output lengths that are off by "
            f"{100 * found.error:g} % of the truth in the mean (lognormal, the median right)."
        )
    said += [f"Error in {error}." for error in found.errors]
    if found.unfinished:
        why = "interrupted" if found.interrupted else "time ran out"
        named = "; ".join(found.unfinished[:NAMED])
        more = len(found.unfinished) - NAMED
        said.append(f"Not done, {why}: {named}{f'; {more} more' if more > 0 else ''}.")
    return said
