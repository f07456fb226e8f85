"""The answer in at most eight lines of a terminal, and what a reader has to know about it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from instances.arrays import IntArray
from instances.problem.memory_rule import TOKENS
from online.trials.intervals import Interval, rounded, rounded_down, rounded_up

from .answer import Headroom
from .measured import Served, p50_p99
from .question import LOGGED

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
CAUSES = (
    "Simulation and log differ by more than 10 %, which is not a saving. It may come from time "
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
    said = f"{len(question.workload):,} requests in {span:,.1f} s"
    if log is not None:
        pair = _pair(p50_p99(log.latencies))
        said += f", mean latency {seconds(log.mean_latency)} s, p50/p99 {pair} s"
    yield "Log", said
    if today is None:
        reasons = [it.reason for one, it in found.failures.items() if one.name == question.baseline]
        yield "Today", f"no answer: {question.baseline} {next(iter(reasons), TOO_SHORT)}"
        return
    off = None if question.made_up and question.concurrency is None else found.difference
    label = question.baseline
    label = label if len(label) <= LONG_LABEL else f"{label.partition('(')[0]}(...)"
    said = f"{label} simulated: mean latency {seconds(today.mean_latency)} s"
    if off is not None:
        near = f"{percent(abs(off))} % {'above' if off > 0 else 'below'}"
        said += f", {near if abs(off) >= Fraction(1, 1000) else 'within 0.1 % of'} the log"
    yield "Today", said
    figures = ", ".join(f"{name} {_pair(it)}" for name, it in today.figures.items())
    yield "p50/p99", f"{figures} s"
    yield from _possible(found, today)
    if question.level is not None:
        yield "Replicas", replicas_needed(found)
    if not found.contradicts:
        yield from _proposal(found, today)


def _possible(found: Headroom, today: Served) -> Iterator[tuple[str, str]]:
    """Write what no scheduler goes below, and what a known schedule has."""
    best, log = found.best(), found.question.measured
    if best is None:
        return
    low, high = best[0].interval.lower or Fraction(0), best[0].interval.upper
    reusing, whole = rounded_down(low, 3), best[0].without_reuse
    said = f"no scheduler is below {reusing if whole is None else rounded_down(whole, 3)} s"
    if found.contradicts and log is not None:
        has = f"{reusing} s, but the log has {seconds(log.mean_latency)} s"
        why = "the batch time is too slow, M too small, or prompts were reused"
        yield "Limit", f"no scheduler is below {has}: {why}. So no savings are given."
        return
    if whole is not None:
        said += f", with a prefix cache below {reusing} s"
    share = rounded_up(100 * (1 - low / today.mean_latency), 1)
    saved = rounded_up(today.mean_latency - low, 3)
    yield "Limit", f"{said}: at most {saved} s ({share} %) could be saved"
    if high is not None:
        saved = rounded_down(today.mean_latency - high, 3)
        share = rounded_down(100 * (1 - high / today.mean_latency), 1)
        what = f"saves {saved} s ({share} %)" if found.divisible else "saves less than 1 %"
        yield "Known", f"a schedule with {seconds(high)} s, which {what}"


def _proposal(found: Headroom, today: Served) -> Iterator[tuple[str, str]]:
    """Write what the best proposal saves, and what it does to the longest latencies."""
    question, rival = found.question, found.rival
    served = None if rival is None else found.served(rival)
    if rival is None or served is None:
        return
    spec, engine = question.specs[rival], question.specs[question.baseline]
    own = [f"{k}={v}" for k, v in spec.params.items() if (k, v) not in engine.params.items()]
    label = ", ".join(own).removeprefix("order=") if spec.name == engine.name and own else rival
    said = f"{label} {_saves(today, served)}"
    predicted = found.served(rival, question.error) if question.error else None
    if predicted is not None:
        both_save = max(served.mean_latency, predicted.mean_latency) <= today.mean_latency
        text = _saves(today, predicted)
        said += f" (predicted {text.removeprefix('saves ') if both_save else text})"
    before, after = (seconds(one.figures["latency"][1]) for one in (today, served))
    yield "Proposal", f"{said}, p99 {before} -> {after} s"


def _saves(today: Served, other: Served) -> str:
    share = 1 - other.mean_latency / today.mean_latency
    return f"saves {percent(share)} %" if share >= 0 else f"costs {percent(-share)} % more"


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
        router = next(iter(question.ways))
        routed = "routed as logged" if router == LOGGED else f"router {router}"
        yield f"{question.workload.replicas} replicas, {routed}"
    certified = "" if best is None or best[0].certified else " (limit not certified)"
    yield f"this batch time and M{certified}"
    shared = question.shared_tokens
    if shared is None or not shared.any():
        yield "no prefix cache"
    else:
        part = Fraction(int(shared.sum()), int(question.workload.prompt_lengths.sum()))
        yield f"a prefix cache could supply {percent(part)} %"


def notes(found: Headroom) -> Iterator[str]:
    """Write what a reader has to know about the figures."""
    off = found.difference
    yield BEST
    if off is not None and abs(off) > LARGE_DIFFERENCE and not found.question.made_up:
        yield CAUSES
    if found.left_out:
        yield "Give a longer time limit, or choose a window: FILE(max_requests=N)."
    for one, it in found.failures.items():
        if it.is_error:
            yield f"Error in {one.name}: {it.reason}."
    if found.unfinished:
        named, more = "; ".join(found.unfinished[:NAMED]), len(found.unfinished) - NAMED
        why = "interrupted" if found.interrupted else "time ran out"
        yield f"Not done, {why}: {named}{f'; {more} more' if more > 0 else ''}."


def facts(found: Headroom) -> dict[str, str]:
    """Describe the requests, the engine and the best possible by name."""
    question, best = found.question, found.best()
    load, rule = question.workload, question.workload.memory_rule
    blocks = f" in blocks of {rule.block_size}; tokens are stored {rule.emitted_token}"
    described = {
        "requests": str(len(load)),
        **question.facts,
        "arrivals over": f"{float(np.ptp(load.arrival_times)):.1f} s",
        "prompts": _lengths(load.prompt_lengths),
        "outputs": _lengths(load.output_lengths),
        "memory limit M": f"{load.memory_limit} tokens{'' if rule == TOKENS else blocks}",
        "load": "all arrive at once"
        if question.load is None
        else f"{question.load:.3f} machine seconds asked for per second, at full memory",
        "the answer holds for": conditions(found),
    }
    if best is not None:
        certified = "certified" if best[0].certified else "not certified"
        described |= {
            "best possible": f"mean latency {span_of(best[0].interval)} s",
            "lower end": f"no scheduler is below it ({best[0].bound}, {certified})",
            "upper end": f"a schedule is known ({best[1]})",
        }
    return described


def _lengths(column: IntArray) -> str:
    return f"{np.mean(column):.1f} on average, at most {np.max(column)} tokens"


def _pair(pair: tuple[float, float]) -> str:
    return "/".join(map(seconds, pair))


def seconds(value: Fraction | float) -> str:
    """Write seconds with three decimals."""
    return rounded(value, 3)


def percent(share: Fraction | float) -> str:
    """Write a share in per cent with one decimal."""
    return rounded(100 * share, 1)


def span_of(interval: Interval, factor: int = 1, decimals: int = 3) -> str:
    """Write an interval, rounded outwards."""
    return interval.times(factor).text(decimals)
