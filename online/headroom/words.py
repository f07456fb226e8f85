"""The answer in at most eight lines of a terminal, and what a reader has to know about it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from instances.arrays import IntArray
from instances.problem.memory_rule import TOKENS
from online.trials.intervals import Interval, rounded, rounded_down, rounded_up

from .answer import Headroom
from .measuring import ENOUGH
from .question import LOGGED
from .tasks import Served, p50_p99

WIDTH, NAME_WIDTH, MOST_LINES = 80, 10, 8
"""Columns of a line, columns of the name in front of it, and lines of an answer."""

SPARED = ("Known", "p50/p99")
"""Lines that are left out where an answer is too long."""

LARGE_DIFFERENCE = Fraction(1, 10)
"""Share of the latency in the log by which a simulation is off and doubted."""

LONG_LABEL = 24
"""Letters of a policy's label up to which its settings are in the answer."""

NAMED = 4
"""Computations without time that are named."""

BEST = (
    "Best possible: the least mean latency of every scheduler of these requests in seconds, "
    "clairvoyant or not, that may pause, chunk, preempt or idle, and processes prompt and tokens "
    "again after a preemption. It is an interval, rounded outwards. It holds for the batch time "
    "stated, not for the machine."
)
MEMORY = (
    "Memory: in no round do the requests of a batch hold more than M. A paused request keeps its "
    "memory. A preempted one frees it, waits, and processes its prompt and tokens again."
)
CAUSES = (
    "Simulation and log differ by more than 10 %, which is not a saving. It may come from time "
    "outside the engine, the batch time, the memory limit, reused prompts, or other settings."
)
FIRST_TOKEN_ALONE = (
    "Attainable with a TTFT limit alone: later tokens may wait (--slo tpot=SECONDS)."
)


def answer_lines(found: Headroom) -> list[str]:
    """Write the answer in at most `MOST_LINES` lines of at most `WIDTH` columns."""
    shown = {name: _wrapped(name, text) for name, text in answers(found)}
    for name in SPARED:
        if sum(map(len, shown.values())) >= MOST_LINES:
            shown.pop(name, None)
    lines = [line for entry in shown.values() for line in entry]
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
    question, today, label = found.question, found.today, found.question.baseline
    log, span = question.measured, float(np.ptp(question.workload.arrival_times))
    said = f"{len(question.workload):,} requests in {span:,.1f} s"
    if log is not None:
        pair = _pair(p50_p99(log.latencies))
        said += f", mean latency {seconds(log.mean_latency)} s, p50/p99 {pair} s"
    yield "Log", said
    if today is None:
        reasons = [it.reason for one, it in found.failures.items() if one.name == label]
        reason = "needs a longer time limit, or fewer requests"
        yield "Today", f"no answer: {label} {next(iter(reasons), reason)}"
        return
    label = label if len(label) <= LONG_LABEL else f"{label.partition('(')[0]}(...)"
    said = f"{label} simulated: mean latency {seconds(today.mean_latency)} s"
    off = None if question.made_up and question.concurrency is None else found.difference
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
    best, log = found.best, found.question.measured
    if best is None:
        return
    low, high = best[0].interval.lower or Fraction(0), best[0].interval.upper
    limit, whole = f"{rounded_down(low, 3)} s", best[0].without_reuse
    if found.contradicts and log is not None:
        said = f"no scheduler is below {limit}, but the log has {seconds(log.mean_latency)} s: the"
        said += " batch time is too slow, M too small, or prompts were reused. "
        yield "Limit", f"{said}So no savings are given."
        return
    if whole is not None:
        limit = f"{rounded_down(whole, 3)} s, with a prefix cache below {limit}"
    saved = _part(today.mean_latency - low, today, rounded_up)
    yield "Limit", f"no scheduler is below {limit}: at most {saved} can be saved"
    if high is not None:
        saved = _part(today.mean_latency - high, today, rounded_down)
        what = f"saves {saved if found.divisible else 'less than 1 %'}"
        yield "Known", f"a schedule with {seconds(high)} s, which {what}"


def _part(saved: Fraction, today: Served, rounding: Callable[[Fraction, int], str]) -> str:
    return f"{rounding(saved, 3)} s ({rounding(100 * saved / today.mean_latency, 1)} %)"


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
    runs = found.by_replicas
    today = [count for count, it in runs.items() if (it.on_time or 0) >= ENOUGH]
    few = [count for count in runs if (found.attainable(count).upper or 0) < ENOUGH]
    most = max(runs)
    if most in few:
        return f"{100 * ENOUGH} % on time: not even with {most}, whatever the scheduler"
    count = min(today, default=most)
    figures = (f"{name} {seconds(runs[count].figures[name][1])}" for name in found.question.limits)
    said = f"{'' if today else 'more than '}{count} today (p99 {', '.join(figures)} s)"
    least = f", at least {max(few) + 1} with any scheduler" if few else ""
    return f"{100 * ENOUGH} % on time: {said}{least}"


def conditions(found: Headroom) -> str:
    """Write in a few words what the answer rests on, the least expected first."""
    return "; ".join(_conditions(found))


def _conditions(found: Headroom) -> Iterator[str]:
    question, best = found.question, found.best
    count = len(question.workload)
    if found.left_out:
        yield f"the first {count:,} of {count + found.left_out:,} requests (no time for more)"
    loop = f"a closed loop of {question.concurrency}" if question.concurrency else ""
    if question.made_up:
        yield f"made-up arrivals{f' ({loop})' if loop else ''}"
    elif loop:
        yield f"the arrivals of {loop}, as logged"
    if best is None:
        yield "simulations only, without bounds"
    yield "all requests at once" if question.load is None else f"load {question.load:.2f}"
    if router := question.router_of(question.replicas):
        routed = "routed as logged" if router.name == LOGGED else f"router {router.label}"
        yield f"{question.replicas} replicas, {routed}"
    certified = "" if best is None or best[0].certified else " (limit not certified)"
    yield f"this batch time and M{certified}"
    shared = question.shared_tokens
    if shared is None or not shared.any():
        yield "no prefix cache"
    else:
        part = Fraction(int(shared.sum()), int(question.workload.prompt_lengths.sum()))
        yield f"a prefix cache could supply {percent(part)} %"


def remarks(found: Headroom, most: int | None = NAMED) -> Iterator[str]:
    """Write what goes with the answer: what a figure does not say, and what has no result.

    Of computations without time at most so many are named.
    """
    if found.question.measured_on_time is not None:
        yield f"In the log itself {share_on_time(found.question.measured_on_time)} % are on time."
    if [*found.question.limits] == ["TTFT"]:
        yield FIRST_TOKEN_ALONE
    if found.left_out:
        yield "Leave --quick out, give a longer time limit, or choose FILE(max_requests=N)."
    reasons: dict[str, list[str]] = {}
    for one, it in found.failures.items():
        reasons.setdefault(it.reason, []).append(one.name)
    for reason, names in reasons.items():
        yield f"No result of {'; '.join(names)}: {reason}."
    if found.unfinished:
        named = found.unfinished[:most]
        more = len(found.unfinished) - len(named)
        why = "interrupted" if found.interrupted else "time ran out"
        yield f"No result of {'; '.join(named)}{f'; {more} more' if more else ''}: {why}."


def notes(found: Headroom) -> Iterator[str]:
    """Write what a reader has to know about the figures."""
    yield from (BEST, MEMORY)
    off = found.difference
    if off is not None and abs(off) > LARGE_DIFFERENCE and not found.question.made_up:
        yield CAUSES


def facts(found: Headroom) -> dict[str, str]:
    """Describe the requests, the engine and the best possible by name."""
    question, best = found.question, found.best
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
        ends = f"from {best[0].bound} ({certified}) to a known schedule ({best[1]})"
        described["best possible"] = f"mean latency {span_of(best[0].interval)} s, {ends}"
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


def share_on_time(share: Fraction | float) -> str:
    """Write a share on time in per cent, rounded down: 99 % is never read where it is missed."""
    return rounded_down(100 * Fraction(share), 1)


def span_of(interval: Interval, factor: int = 1, decimals: int = 3) -> str:
    """Write an interval, rounded outwards."""
    return interval.times(factor).text(decimals)
