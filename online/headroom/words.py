"""The answer in at most eight lines of a terminal, and what a reader has to know about it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from instances.problem.memory_rule import TOKENS
from online.trials.intervals import Interval, rounded, rounded_down, rounded_up

from .answer import Headroom
from .measured import Served, p50_p99
from .question import LOGGED

Rounding = Callable[[Fraction | float, int], str]

WIDTH, NAME_WIDTH, MOST_LINES = 80, 10, 8
"""Columns of a line, columns of the name in front of it, and lines of an answer."""

ENOUGH = Fraction(99, 100)
"""Share of requests on time for which replicas are counted."""

LARGE_DIFFERENCE = Fraction(1, 10)
"""Share of the latency in the log by which a simulation is off and doubted."""

LONG_LABEL = 24
"""Letters of a policy's label up to which its settings are in the answer."""

TOO_SHORT = "needs a longer time limit, or fewer requests"

NAMED = 4
"""Computations not done that are named."""

BEST = (
    "Best possible: the least mean latency of every scheduler of these requests in seconds, "
    "clairvoyant or not, that may pause, chunk, preempt or idle, and processes prompt and tokens "
    "again after a preemption. It is an interval, rounded outwards. It holds for the batch time "
    "stated, not for the machine."
)
SHARES = (
    "Saving, %: the part of what could be saved that a policy saves, below 0 if it is "
    "slower than today's."
)
ON_TIME = (
    "On time: a request that keeps every limit. Attainable: the largest share of requests on time "
    "of every scheduler and router, which may also drop late requests."
)
LOSSES = (
    "The router loses what no scheduler wins back while every request stays on its replica. The "
    "schedulers lose what better ones win back with the same routing."
)
REUSED = (
    "Bounds leave out all prompt tokens that any other request could supply, so they hold with a "
    "prefix cache. Simulations and known schedules process every prompt whole."
)
NO_HASHES = "The log does not show shared prefixes, so bounds are without a prefix cache."
CLOSED_LOOP = (
    "The log is of a closed loop: a request was sent when another one ended. With a better "
    "scheduler requests would have been sent earlier; here they arrive as in the log."
)
PLAYED = (
    "The log has no start times. Its closed loop was simulated under today's policy: a request "
    "arrives when another one ends. All figures hold for these arrivals only."
)
MADE_UP = (
    "The log has no start times. Give max_concurrency=N if at most N requests were sent at once."
)
CAUSES = (
    "Simulation and log differ by more than 10 %, which is no saving. It may come from time "
    "outside the engine, the batch time, the memory limit, reused prompts, or other settings."
)


def answer_lines(found: Headroom) -> list[str]:
    """Write the answer in at most `MOST_LINES` lines of at most `WIDTH` columns."""
    lines = [line for name, text in answers(found) for line in _wrapped(name, text)]
    lines = lines[: MOST_LINES - 1]
    return [*lines, *_wrapped("Holds for", conditions(found), MOST_LINES - len(lines))]


def _wrapped(name: str, text: str, most: int | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{name:<{NAME_WIDTH}}",
        subsequent_indent=" " * NAME_WIDTH,
        max_lines=most,
        placeholder=" ... (--details)",
        break_on_hyphens=False,
    )


def answers(found: Headroom) -> Iterator[tuple[str, str]]:
    """Write what the log had, what today's policy has, what is possible, and what is proposed."""
    question, today = found.question, found.today
    log, span = question.measured, float(np.ptp(question.workload.arrival_times))
    said = f"{len(question.workload):,} requests in {short(span)} s"
    if log is not None:
        pair = _pair(p50_p99(log.latencies))
        said += f", mean latency {seconds(log.mean_latency)} s, p50/p99 {pair} s"
    yield "Log", said
    if today is None:
        reasons = [it.reason for one, it in found.failures.items() if one.name == question.baseline]
        yield "Today", f"no answer: {question.baseline} {next(iter(reasons), TOO_SHORT)}"
        return
    off = None if question.made_up and question.concurrency is None else found.difference
    known = "" if off is None else f", {_apart(off)} the log"
    label = question.baseline
    label = label if len(label) <= LONG_LABEL else f"{label.partition('(')[0]}(...)"
    yield "Today", f"{label} simulated: mean latency {seconds(today.mean_latency)} s{known}"
    figures = ", ".join(f"{name} {_pair(it)}" for name, it in today.figures.items())
    yield "", f"p50/p99, s: {figures}"
    yield from _possible(found, today)
    if question.level is not None:
        yield "Replicas", replicas_needed(found)
    elif question.ways and (losses := found.losses(next(iter(question.ways)))) is not None:
        of = [f"{span_of(one)} s" for one in losses]
        yield "Losses", f"the router loses {of[0]}, the schedulers {of[1]}"
    if not found.contradicts:
        yield from _proposal(found, today)


def _possible(found: Headroom, today: Served) -> Iterator[tuple[str, str]]:
    """Write what no scheduler goes below, and what a known schedule has."""
    best, log = found.best(), found.question.measured
    if best is None:
        return
    bounds, interval = best[0], best[0].interval
    low = interval.lower or Fraction(0)
    if found.contradicts and log is not None:
        has = f"{seconds(low, rounded_down)} s, but the log has {seconds(log.mean_latency)} s"
        yield "Limit", f"no scheduler is below {has}: {_too_slow(found)}. So no savings are given."
        return
    most = f"at most {_saved(today, today.mean_latency - low, rounded_up)} could be saved"
    if bounds.without_reuse is not None:
        most = f"with a prefix cache below {seconds(low, rounded_down)} s: {most}"
        low = bounds.without_reuse
        yield "Limit", f"no scheduler is below {seconds(low, rounded_down)} s, {most}"
    else:
        yield "Limit", f"no scheduler is below {seconds(low, rounded_down)} s: {most}"
    if interval.upper is not None:
        saved = _saved(today, today.mean_latency - interval.upper, rounded_down)
        what = f"saves {saved}" if found.divisible else "saves less than 1 %"
        yield "Known", f"a schedule with {seconds(interval.upper)} s, which {what}"


def _proposal(found: Headroom, today: Served) -> Iterator[tuple[str, str]]:
    """Write what the best proposal saves, and what it does to the longest latencies."""
    question, rival = found.question, found.rival
    served = None if rival is None else found.served(rival)
    if rival is None or served is None:
        return
    spec, engine = question.specs[rival], question.specs[question.baseline]
    own = [f"{k}={v}" for k, v in spec.params.items() if (k, v) not in engine.params.items()]
    label = ", ".join(own) if spec.name == engine.name and own else rival
    said = f"{label} saves {_share_saved(today, served)} %"
    predicted = found.served(rival, question.error) if question.error else None
    if predicted is not None:
        said += f" (predicted {_share_saved(today, predicted)} %)"
    before, after = (short(one.figures["latency"][1]) for one in (today, served))
    yield "Proposal", f"{said}, p99 {before} -> {after} s"


def _share_saved(today: Served, other: Served) -> str:
    return percent((today.mean_latency - other.mean_latency) / today.mean_latency)


def replicas_needed(found: Headroom) -> str:
    """Write how many replicas have enough requests on time today, and how few can have them."""
    name = found.question.baseline
    shares = {one.replicas: found.served(name, place=one) for one in found.tried()}
    today = [count for count, it in shares.items() if it and it.on_time and it.on_time >= ENOUGH]
    uppers = {one.replicas: found.attainable(one).upper for one in found.tried()}
    few = [count for count, upper in uppers.items() if upper is not None and upper < ENOUGH]
    enough, most = f"for {100 * ENOUGH} % on time", max(shares, default=0)
    if most in few:
        return f"{most} are not enough {enough}, whatever the scheduler"
    said = f"{min(today)} suffice today" if today else f"{most} are not enough today"
    return f"{said} {enough}{f'; {max(few)} do not under any scheduler' if few else ''}"


def headline(found: Headroom) -> str:
    """Answer in one sentence."""
    saving, today = found.saving(), found.today
    if found.contradicts:
        return "The batch time or the memory limit does not fit this log"
    if found.question.level is not None and found.tried():
        return f"Of the replicas, {replicas_needed(found)}"
    if saving is None or today is None:
        return "No answer: today's latency or the best possible is not known"
    most = f"{_saved(today, saving.upper or today.mean_latency, rounded_up)} of the mean latency"
    best = "best router and schedulers" if found.question.ways else "best scheduler"
    return f"The {best} could have saved at most {most}"


def conditions(found: Headroom) -> str:
    """Write in a few words what the answer rests on, the least expected first."""
    return "; ".join(_conditions(found))


def _conditions(found: Headroom) -> Iterator[str]:
    question, best = found.question, found.best()
    count = len(question.workload)
    if found.left_out:
        yield f"the first {count:,} of {count + found.left_out:,} requests (time limit)"
    loop = f"a closed loop of {question.concurrency}" if question.concurrency else ""
    if question.made_up:
        yield f"made-up arrivals{f' ({loop})' if loop else ''}"
    elif loop:
        yield f"the arrivals of {loop}, as logged"
    if best is None:
        yield "simulations only, without bounds"
    if found.unfinished:
        yield f"{len(found.unfinished)} computations not done"
    yield "all requests at once" if question.load is None else f"load {question.load:.2f}"
    if question.ways:
        yield f"{question.workload.replicas} replicas, {_routed(found)}"
    certified = "" if best is None or best[0].certified else " (limit not certified)"
    yield f"this batch time and M{certified}"
    yield _reuse(found) or "no prefix cache"


def _routed(found: Headroom) -> str:
    router = next(iter(found.question.ways))
    return "routed as logged" if router == LOGGED else f"router {router}"


def _reuse(found: Headroom) -> str:
    """Write how much of the prompts a prefix cache could supply, if the log shows it."""
    shared = found.question.shared_tokens
    if shared is None or not shared.any():
        return ""
    part = Fraction(int(shared.sum()), int(found.question.workload.prompt_lengths.sum()))
    return f"a prefix cache could supply {percent(part)} %"


def _too_slow(found: Headroom) -> str:
    reused = ", or prompts were reused" if found.question.shared_tokens is None else ""
    return f"the batch time is too slow, the memory limit too small{reused}"


def _apart(off: Fraction) -> str:
    part = f"{percent(abs(off))} % {'above' if off > 0 else 'below'}"
    return "within 0.1 % of" if abs(off) < Fraction(1, 1000) else part


def notes(found: Headroom) -> list[str]:
    """Write what a reader has to know about the figures."""
    question, off = found.question, found.difference
    said = [BEST]
    if question.level is not None:
        said.append(ON_TIME)
    if found.divisible:
        said.append(SHARES)
    if question.ways:
        said.append(LOSSES)
    said.append(
        f"By the hashes of the log, {_reuse(found)} of the prompts. {REUSED}"
        if _reuse(found)
        else NO_HASHES
    )
    if question.made_up:
        said.append(PLAYED if question.concurrency else MADE_UP)
    elif question.concurrency:
        said.append(CLOSED_LOOP)
    if off is not None and abs(off) > LARGE_DIFFERENCE and not question.made_up:
        said.append(CAUSES)
    if found.left_out:
        said.append("Give a longer time limit, or choose a window: FILE(max_requests=N).")
    said += [
        f"Error in {one.name}: {it.reason}." for one, it in found.failures.items() if it.is_error
    ]
    if found.unfinished:
        named, more = "; ".join(found.unfinished[:NAMED]), len(found.unfinished) - NAMED
        why = "interrupted" if found.interrupted else "time ran out"
        said.append(f"Not done, {why}: {named}{f'; {more} more' if more > 0 else ''}.")
    return said


def facts(found: Headroom) -> dict[str, str]:
    """Describe the requests, the engine and the best possible by name."""
    question, best = found.question, found.best()
    load, rule = question.workload, question.workload.memory_rule
    prompts, outputs = (
        f"{np.mean(column):.1f} on average, at most {int(np.max(column))} tokens"
        for column in (load.prompt_lengths, load.output_lengths)
    )
    blocks = f" in blocks of {rule.block_size}; tokens are stored {rule.emitted_token}"
    each = f" on each of {load.replicas} replicas, {_routed(found)}" if question.ways else ""
    described = {
        "requests": str(len(load)),
        **question.facts,
        "arrivals over": f"{float(np.ptp(load.arrival_times)):.1f} s",
        "prompts": prompts,
        "outputs": outputs,
        "memory limit M": f"{load.memory_limit} tokens{each}{'' if rule == TOKENS else blocks}",
        "load": "all arrive at once"
        if question.load is None
        else f"{question.load:.3f} machine seconds asked for per second, at full memory",
        "the answer holds for": conditions(found),
    }
    if best is None:
        return described
    bounds, schedule = best
    certified = "certified" if bounds.certified else "not certified"
    return {
        **described,
        "best possible": f"mean latency {span_of(bounds.interval)} s",
        "lower end": f"no scheduler is below it ({bounds.bound}, {certified})",
        "upper end": f"a schedule is known ({schedule})",
    }


def _saved(today: Served, saved: Fraction, rounding: Rounding = rounded) -> str:
    return f"{rounding(saved, 3)} s ({rounding(100 * saved / today.mean_latency, 1)} %)"


def _pair(pair: tuple[float, float]) -> str:
    return f"{short(pair[0])}/{short(pair[1])}"


def seconds(value: Fraction | float, rounding: Rounding = rounded) -> str:
    """Write seconds with three decimals."""
    return rounding(value, 3)


def percent(share: Fraction | float) -> str:
    """Write a share in per cent with one decimal."""
    return rounded(100 * share, 1)


def span_of(interval: Interval, factor: int = 1, decimals: int = 3) -> str:
    """Write an interval, rounded outwards."""
    return interval.times(factor).text(decimals)


def short(value: float) -> str:
    """Write a figure with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
