"""Texts of a headroom report: at most eight lines for a terminal, conditions, remarks and facts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from instances.problem.conditions import conditions as shared_conditions
from instances.problem.memory_rule import TOKENS
from online.trials.intervals import rounded, rounded_down, rounded_up

from .answer import Headroom
from .batch_times import WEAK_FIT
from .question import LOGGED, Question
from .tasks import Served, p50_p99

WIDTH, NAME_WIDTH, MOST_LINES = 80, 10, 8
"""Limit on characters of a line, width of the name at its start, and limit on lines of a report."""

SPARED = ("p50/p99", "Proposal", "Known")
"""Names of lines that are left out, in this order, if a report has more than `MOST_LINES`."""

LONG_LABEL = 24
"""Longest label of a policy that is printed whole. If it is longer, settings are left out."""

LEAST_LOAD, LARGEST_LOAD = 0.01, 20.0
"""Range of loads. With a load outside it, units of the log or the batch time are likely wrong."""

NAMED = 4
"""Number of failed or unfinished tasks that a remark names. Further ones are called "others"."""

FEW_REQUESTS = 1000
"""Number of requests below which a remark says how few of them are above p99."""

BEST = "Best possible: a paused request keeps its memory, a preempted one recomputes its tokens."
ATTAINABLE = (
    "Attainable: an interval proved to contain the largest share of any scheduler. Only there "
    "preempted requests return at no cost, which vLLM cannot do. All other columns are simulated"
)
DOUBTFUL = (
    "Simulation and log differ by more than 10 %, which is not a saving. It may come from units, "
    "time outside the engine, the batch time, M, reused prompts, other requests, or settings."
)


def answer_lines(found: Headroom, *, whole: bool = False) -> list[str]:
    """Return the report in lines of `WIDTH` characters: `MOST_LINES`, or all if ``whole``."""
    shown = {name: _wrapped(name, text) for name, text in answers(found)}
    for name in () if whole else SPARED:
        if sum(map(len, shown.values())) >= MOST_LINES:
            shown.pop(name, None)
    lines = [line for entry in shown.values() for line in entry]
    most = None if whole else MOST_LINES - len(lines)
    return [*lines, *_wrapped("Holds for", conditions(found), most)]


def _wrapped(name: str, text: str, most: int | None = None) -> list[str]:
    lines = textwrap.TextWrapper(WIDTH, f"{name:<{NAME_WIDTH}}", " " * NAME_WIDTH, max_lines=most)
    lines.placeholder, lines.break_on_hyphens = " ... (--details)", False
    return lines.wrap(text)


def answers(found: Headroom) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each line of a headroom report.

    The lines are the latencies in the log, those of today's policy, the limit of every scheduler,
    the best known schedule, the replicas needed, and the best proposal.
    """
    question, today, label = found.question, found.today, found.question.baseline
    log, mean = question.measured, question.measured_mean
    said = requests_of(found)
    if log is not None and mean is not None:
        said += f", measured mean latency {seconds(mean)}, p99 {seconds(p50_p99(log)[1])} s"
    yield "Log", said
    if today is None:
        yield "Today", f"no answer, as {label} has no result"
        return
    mean_latency = f"mean latency {seconds(today.mean_latency)} s"
    mean_latency += f", {difference(found)}" if difference(found) else ""
    if (first := question.measured_first) is not None and "TTFT" in question.limits:
        both = today.figures["TTFT"][1], p50_p99(first)[1]
        mean_latency += "; p99 TTFT {} s, in the log {} s".format(*map(seconds, both))
    yield "Today", f"{short(question, label)} simulated: {mean_latency}"
    figures = (f"{name} {'/'.join(map(seconds, it))}" for name, it in today.figures.items())
    yield "p50/p99", f"simulated {', '.join(figures)} s"
    yield from _possible(found, today)
    if question.level is not None:
        yield "Replicas", replicas_needed(found)
    if not found.contradicts:
        yield from _proposal(found, today)


def requests_of(found: Headroom) -> str:
    """Write the number of requests in the report and the seconds in which they arrive."""
    load, left = found.question.workload, found.left_out
    count = f"the first {len(load):,} of {len(load) + left:,}" if left else f"{len(load):,}"
    span = float(np.ptp(load.arrival_times))
    return f"{count} requests in {span:,.{1 if span < 100 else 0}f} s"


def short(question: Question, label: str) -> str:
    """Return a short label of a policy. If the label is long, it is the name without settings.

    For another policy of today's engine, only settings that differ from today's are in the label.
    """
    spec, engine = question.specs[label], question.specs[question.baseline]
    own = [f"{k}={v}" for k, v in spec.params.items() if (k, v) not in engine.params.items()]
    if spec.name == engine.name and own:
        return ", ".join(own).removeprefix("order=")
    return label if len(label) <= LONG_LABEL else f"{spec.name}(...)"


def difference(found: Headroom) -> str:
    """Write how far the simulated mean latency of today's policy is above or below that of the log.

    The text is empty if the log has no latencies.
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
    proof = "proved" if bounds.certified else "not certified"
    if found.contradicts and logged is not None:
        reasons = "the batch time is too slow, M too small, or prompts were reused"
        yield "Limit", f"{limit} ({proof}), but the log has {seconds(logged)} s: {reasons}"
        return
    if bounds.without_reuse is not None:
        limit += f" with a prefix cache, {rounded_down(bounds.without_reuse, 3)} s without"
    most, mean = today.mean_latency - low, today.mean_latency
    part = f"{rounded_up(most, 3)} s ({rounded_up(100 * most / mean, 1)} %)"
    yield "Limit", f"{limit} ({proof}): saves <= {part}"
    if high is not None:
        part = f"{rounded_down(mean - high, 3)} s ({rounded_down(100 - 100 * high / mean, 1)} %)"
        yield "Known", f"a computed schedule has {rounded_up(high, 3)} s, which saves {part}"


def _proposal(found: Headroom, today: Served) -> Iterator[tuple[str, str]]:
    """Yield the line of the best proposal: saved mean latency, and % on time or p99 latency.

    The share on time is given if there is a service level, else the p99 latency.
    """
    rival, error = found.rival, found.question.error
    served = None if rival is None else found.served(rival)
    if rival is None or served is None:
        return
    share, predicted = 1 - served.mean_latency / today.mean_latency, found.served(rival, error)
    said = f"saves {percent(share)} %" if share >= 0 else f"costs {percent(-share)} % more"
    if predicted is not None and predicted is not served:
        said += f" (predicted {percent(1 - predicted.mean_latency / today.mean_latency)})"
    gained = f"p99 {seconds(served.figures['latency'][1])} s"
    if served.on_time is not None:
        gained = f"{floored(served.on_time)} % on time"
    yield "Proposal", f"{short(found.question, rival)} simulated: {said}, {gained}"


def replicas_needed(found: Headroom) -> str:
    """Write how many replicas suffice with today's policy, and how many with any scheduler."""
    runs, wanted, (least, most) = found.by_replicas, found.question.wanted, found.fewest
    if found.is_doubtful:
        return f"no number: simulation {difference(found)}: check M and the batch time"
    share, top = f"{float(100 * wanted):g} % on time", max(runs)
    enough = [count for count, it in runs.items() if (it.on_time or 0) >= wanted]
    if least > top:
        return f"{share}: not even with {top}, whatever the scheduler (proved)"
    if least < most:
        best = f"at best {least} {f'to {most}' if most <= top else 'or more'} (open)"
    else:
        best = f"at best {most}, by a known schedule"
        best = "no scheduler needs fewer (proved)" if most in enough else best
    said = f"{min(enough)} today" if enough else f"more than {top} today"
    return f"{share}: {said} (simulated), {best}"


def conditions(found: Headroom) -> str:
    """Write the conditions under which the results hold, the most unusual first.

    They are about arrivals, load, replicas, batch time, M, the reuse of prompts, and schedulers.
    """
    question, router = found.question, found.question.router_of(found.question.replicas)
    parts = ["simulations only, without bounds"] if found.best is None else []
    if question.made_up:
        parts.insert(0, "made-up arrivals")
    elif question.concurrency:
        parts.insert(0, f"at most {question.concurrency} requests in flight, as logged")
    parts.append("all requests at once" if question.load is None else f"load {question.load:.2f}")
    if not LEAST_LOAD <= (question.load or 1.0) <= LARGEST_LOAD:
        parts[-1] = f"load {question.load:.2g} (in doubt: check the units of the arrivals)"
    if router:
        routed = "routed as logged" if router.name == LOGGED else f"router {router.label}"
        parts.append(f"{question.replicas} replicas, {routed}")
    return "; ".join([*parts, shared_conditions(True, preempts=True, reused=question.reused)])


def remarks(found: Headroom, *, details: bool = True) -> Iterator[str]:
    """Yield remarks on the results: the log's share on time, requests left out, and failed tasks.

    With ``details`` the last remark defines the best possible latency.
    """
    question, count = found.question, len(found.question.workload)
    yield from _about_figures(found)
    if count < FEW_REQUESTS and found.today is not None:
        above = f"Only {count // 100} of {count} requests exceed p99."
        yield above if count >= 100 else f"Of {count} requests, p99 is the largest value."
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
    if details and any(one.error for one in found.here):
        yield f"Predicted: one draw of RelativePredictions({question.error:g})."
    if details:
        yield f"{BEST} {DOUBTFUL}" if found.is_doubtful else BEST


def _about_figures(found: Headroom) -> Iterator[str]:
    """Yield remarks on the fit, on the shares on time, and on a saving below the difference."""
    question, today, logged = found.question, found.today, found.question.measured_mean
    if WEAK_FIT in question.facts:
        yield f"The fit of d0 and d1 is weak: {question.facts[WEAK_FIT]}. Give --batch-time."
    if question.level is not None:
        routers = {one.label for k in found.by_replicas if (one := question.router_of(k))}
        behind = f" (router: {', '.join(sorted(routers))})" if routers else ""
        yield f"{ATTAINABLE}{behind}."
    if [*question.limits] == ["TTFT"]:
        yield "A limit on TTFT alone is easy to keep, because all other tokens may wait."
    if question.measured_on_time is not None:
        yield f"Measured in the log: {floored(question.measured_on_time)} % on time."
    if logged is not None and today is not None and not found.contradicts:
        best = found.best[0].interval.upper if found.best else None
        least = best or min(it.mean_latency for it in found.here.values())
        if 0 < today.mean_latency - least < abs(today.mean_latency - logged):
            yield "The known saving is less than the difference between simulation and log."


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


def seconds(value: Fraction | float) -> str:
    """Write a number of seconds with three decimals, without a unit."""
    return rounded(value, 3)


def percent(share: Fraction | float) -> str:
    """Write a share in per cent with one decimal, without a sign: 0.5 is 50.0."""
    return rounded(100 * share, 1)


def floored(share: Fraction | float) -> str:
    """Write a share in per cent with one decimal, rounded down.

    So a share of requests on time that is below 99 % is never printed as 99 %.
    """
    return rounded_down(100 * Fraction(share), 1)
