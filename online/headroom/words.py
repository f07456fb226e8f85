"""The answer in at most eight lines of a terminal, with conditions, remarks and facts as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from instances.problem.memory_rule import TOKENS
from online.trials.intervals import rounded, rounded_down, rounded_up

from .answer import Headroom
from .question import LOGGED
from .tasks import Served, p50_p99

WIDTH, NAME_WIDTH, MOST_LINES = 80, 10, 8
"""Most characters of a line, characters of the name at its start, and most lines of an answer."""

SPARED = ("Known", "p50/p99")
"""Names of the lines that are left out, in this order, if an answer exceeds `MOST_LINES`."""

LONG_LABEL = 24
"""Longest label of a policy that is printed whole; of a longer one the settings are left out."""

NAMED = 4
"""Number of failed or unfinished tasks that a remark names; the others are only mentioned."""

BEST = (
    "Best possible: the least mean latency of every scheduler of these requests, clairvoyant or "
    "not, that may pause, chunk, preempt or idle, within M and for this batch time. It is an "
    "interval, rounded outwards. A paused request keeps its memory. A preempted one frees it, "
    "waits, and processes its prompt and tokens again."
)
DOUBTFUL = (
    "Simulation and log differ by more than 10 %, which is not a saving. It may come from time "
    "outside the engine, the batch time, M, reused prompts, other requests, or other settings."
)


def answer_lines(found: Headroom) -> list[str]:
    """Return the answer in at most `MOST_LINES` lines of at most `WIDTH` characters."""
    shown = {name: _wrapped(name, text) for name, text in answers(found)}
    for name in SPARED:
        if sum(map(len, shown.values())) >= MOST_LINES:
            shown.pop(name, None)
    lines = [line for entry in shown.values() for line in entry]
    return [*lines, *_wrapped("Holds for", conditions(found), MOST_LINES - len(lines))]


def _wrapped(name: str, text: str, most: int | None = None) -> list[str]:
    return textwrap.wrap(
        f"{name:<{NAME_WIDTH}}{text}",
        WIDTH,
        subsequent_indent=" " * NAME_WIDTH,
        max_lines=most,
        placeholder=" ... (--details)",
        break_on_hyphens=False,
    )


def answers(found: Headroom) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each line of the answer.

    The lines are the latencies in the log, those of today's policy, the limit of every scheduler,
    the best known schedule, the replicas needed, and the best proposal.
    """
    question, today, label = found.question, found.today, found.question.baseline
    log, mean = question.measured, question.measured_mean
    said = requests_of(found)
    if log is not None and mean is not None:
        said += f", mean latency {seconds(mean)} s, p50/p99 {_pair(p50_p99(log))} s"
    yield "Log", said
    if today is None:
        yield "Today", f"no answer, as {label} has no result"
        return
    short = label if len(label) <= LONG_LABEL else f"{label.partition('(')[0]}(...)"
    off = f", {difference(found)}" if difference(found) else ""
    yield "Today", f"{short} simulated: mean latency {seconds(today.mean_latency)} s{off}"
    figures = (f"{name} {_pair(it)}" for name, it in today.figures.items())
    yield "p50/p99", f"{', '.join(figures)} s"
    yield from _possible(found, today)
    if question.level is not None:
        yield "Replicas", replicas_needed(found)
    if not found.contradicts:
        yield from _proposal(found, today)


def requests_of(found: Headroom) -> str:
    """Write the number of requests in the answer and the seconds in which they arrive."""
    load, left = found.question.workload, found.left_out
    count = f"the first {len(load):,} of {len(load) + left:,}" if left else f"{len(load):,}"
    return f"{count} requests in {float(np.ptp(load.arrival_times)):,.1f} s"


def difference(found: Headroom) -> str:
    """Write how far the simulated mean latency of today's policy is above or below the log's.

    Empty if the log has no latencies.
    """
    off = found.difference
    if off is None:
        return ""
    if abs(off) < Fraction(1, 1000):
        return "within 0.1 % of the log"
    return f"{percent(abs(off))} % {'above' if off > 0 else 'below'} the log"


def _possible(found: Headroom, today: Served) -> Iterator[tuple[str, str]]:
    """Yield the lines with the lower bound on every scheduler and with the best known schedule."""
    if found.best is None:
        return
    bounds, logged = found.best[0], found.question.measured_mean
    low, high = bounds.interval.lower or Fraction(0), bounds.interval.upper
    limit = f"no scheduler is below {rounded_down(low, 3)} s"
    if found.contradicts and logged is not None:
        reasons = "the batch time is too slow, M too small, or prompts were reused"
        yield "Limit", f"{limit}, but the log has {seconds(logged)} s: {reasons}"
        return
    if bounds.without_reuse is not None:
        limit += f" with a prefix cache, {rounded_down(bounds.without_reuse, 3)} s without"
    saved = _part(today.mean_latency - low, today, rounded_up)
    yield "Limit", f"{limit}: at most {saved} can be saved"
    if high is not None:
        saved = _part(today.mean_latency - high, today, rounded_down)
        yield "Known", f"a schedule with {seconds(high)} s, which saves {saved}"


def _part(saved: Fraction, today: Served, rounding: Callable[[Fraction, int], str]) -> str:
    return f"{rounding(saved, 3)} s ({rounding(100 * saved / today.mean_latency, 1)} %)"


def _proposal(found: Headroom, today: Served) -> Iterator[tuple[str, str]]:
    """Yield the line on the best proposal: its saving, and p99 latency before and after."""
    question, rival = found.question, found.rival
    served = None if rival is None else found.served(rival)
    if rival is None or served is None:
        return
    spec, engine = question.specs[rival], question.specs[question.baseline]
    own = [f"{k}={v}" for k, v in spec.params.items() if (k, v) not in engine.params.items()]
    label = ", ".join(own).removeprefix("order=") if spec.name == engine.name and own else rival
    said = f"{label} {_saves(found, served)}"
    predicted = found.served(rival, question.error)
    if predicted is not None and predicted is not served:
        said += f" (predicted: {_saves(found, predicted)})"
    before, after = (seconds(one.figures["latency"][1]) for one in (today, served))
    yield "Proposal", f"{said}, p99 {before} -> {after} s"


def _saves(found: Headroom, served: Served) -> str:
    share = found.share(served) or Fraction(0)
    return f"saves {percent(share)} %" if share >= 0 else f"costs {percent(-share)} % more"


def replicas_needed(found: Headroom) -> str:
    """Write how many replicas today's policy needs for enough requests on time.

    A lower bound on the number that any scheduler needs follows, if one is known.
    """
    runs, wanted = found.by_replicas, found.question.wanted
    today = [count for count, it in runs.items() if (it.on_time or 0) >= wanted]
    few = [count for count in runs if (found.attainable(count).upper or 0) < wanted]
    how = "simulated" if found.difference is None else "today"
    if max(runs) in few:
        said = f"not even with {max(runs)}, whatever the scheduler"
    else:
        count = min(today, default=max(runs))
        p99 = [f"{one} {seconds(runs[count].figures[one][1])}" for one in found.question.limits]
        said = f"{'' if today else 'more than '}{count} {how} (p99 {', '.join(p99)} s)"
        said += f", at least {max(few) + 1} with any scheduler" if few else ""
    doubt = f", but the simulation is {difference(found)}" if found.is_doubtful else ""
    return f"{float(100 * wanted):g} % on time: {said}{doubt}"


def conditions(found: Headroom) -> str:
    """Write the conditions under which the answer holds, the most unusual first.

    They are the arrivals, load, replicas, batch time, M, and the reuse of prompts.
    """
    question, router = found.question, found.question.router_of(found.question.replicas)
    parts = ["simulations only, without bounds"] if found.best is None else []
    if question.made_up:
        parts.insert(0, "made-up arrivals")
    elif question.concurrency:
        parts.insert(0, f"the arrivals of a closed loop of {question.concurrency}, as logged")
    parts.append("all requests at once" if question.load is None else f"load {question.load:.2f}")
    if router:
        routed = "routed as logged" if router.name == LOGGED else f"router {router.label}"
        parts.append(f"{question.replicas} replicas, {routed}")
    parts.append("this batch time and M")
    if found.best is not None and not found.best[0].certified:
        parts[-1] += " (limit not certified)"
    reused = f"a prefix cache could supply {percent(question.reused)} %"
    return "; ".join([*parts, reused if question.reused else "no prefix cache"])


def remarks(found: Headroom, *, details: bool = True) -> Iterator[str]:
    """Yield remarks on an answer: the log's share on time, requests left out, and failed tasks.

    With ``details`` the last remark defines the best possible latency.
    """
    on_time = found.question.measured_on_time
    if on_time is not None:
        yield f"In the log itself {floored(on_time)} % are on time."
    if found.left_out:
        yield "Other requests: a longer --time-limit, or FILE(start_seconds=S, max_requests=N)."
    reasons: dict[str, list[str]] = {}
    for one, it in found.failures.items():
        reasons.setdefault(it.reason, []).append(one.name)
    if found.unfinished:
        reasons["interrupted" if found.interrupted else "time ran out"] = [*found.unfinished]
    for reason, names in reasons.items():
        shown = names if details or len(names) <= NAMED else [*names[:NAMED], "others"]
        yield f"No result of {'; '.join(shown)}: {reason}."
    if details:
        yield f"{BEST} {DOUBTFUL}" if found.is_doubtful else BEST


def facts(found: Headroom) -> dict[str, str]:
    """Return facts about the requests, the engine and the best possible latency: name and text."""
    question, load = found.question, found.question.workload
    s, o, rule = load.prompt_lengths, load.output_lengths, load.memory_rule
    blocks = f" in blocks of {rule.block_size}; tokens are stored {rule.emitted_token}"
    asked = "all arrive at once"
    if question.load is not None:
        asked = f"{question.load:.3f} machine seconds asked for per second, at full memory"
    described = {
        "requests": requests_of(found),
        **question.facts,
        "prompts": f"{s.mean():.1f} on average, at most {s.max()} tokens",
        "outputs": f"{o.mean():.1f} on average, at most {o.max()} tokens",
        "memory limit M": f"{load.memory_limit} tokens{'' if rule == TOKENS else blocks}",
        "load": asked,
        "the answer holds for": conditions(found),
    }
    if found.best is not None:
        bounds, schedule = found.best
        said = f"mean latency {bounds.interval.text(3)} s, from {bounds.bound} "
        said += f"({'' if bounds.certified else 'not '}certified) to a known schedule ({schedule})"
        described["best possible"] = said
    return described


def _pair(pair: tuple[float, float]) -> str:
    return "/".join(map(seconds, pair))


def seconds(value: Fraction | float) -> str:
    """Write a number of seconds with three decimals, without a unit."""
    return rounded(value, 3)


def percent(share: Fraction | float) -> str:
    """Write a share in per cent with one decimal, without a sign: 0.5 is 50.0."""
    return rounded(100 * share, 1)


def floored(share: Fraction | float) -> str:
    """Write a share in per cent with one decimal, rounded down.

    So a share of requests on time below 99 % is never printed as 99 %.
    """
    return rounded_down(100 * Fraction(share), 1)
