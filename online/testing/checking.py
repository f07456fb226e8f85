"""`check_policy`: determinism, no peeking, the rules, no starvation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hindsight.testing import CheckReport, Verdict, instance_lines
from instances import InvalidTypeError, InvalidValueError
from instances.user_modules import MAIN, file_of, users_line
from instances.validation import as_integer
from online.policy_interface.policy import KnowledgeError, Policy, PolicyError
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs
from online.trials.task import UNSERVED
from online.trials.trial import COMPLETED, one_line

from .cases import EXACT, Case, drawn_cases, other_futures, other_lengths, smallest
from .runs import LEVEL, ROUNDS_TO_END, Laboratory, Outcome, play

Reason: TypeAlias = "str | None"
"""The reason of a failure; empty if the check passed, None if it does not apply to the case."""

Check: TypeAlias = Callable[[Laboratory, Case], Reason]


def check_policy(policy: AnyPolicy, instances: int = 100, *, seed: int = 0) -> CheckReport:
    """Run a policy on drawn instances, and report which properties of every policy it lacks.

    * runs: it raises no error.
    * rules: memory is kept, only waiting requests are started, and random numbers are drawn only if
      the policy is `Policy.randomized`.
    * ends: every request is served.
    * deterministic: equal seeds give equal decisions, whatever the object ran before.
    * lengths: decisions do not change with output lengths behind equal predictions, until one of
      them shows by its end.
    * future: decisions do not change with the requests that are still to come.

    A look at the simulator's inside that changes no decision is not found. A decision that never
    returns is not ended.

    Parameters
    ----------
    policy : AnyPolicy
        As `online.simulate` takes it.
    instances : int, default 100
        Number of instances to draw: all at once and with arrivals, tight memory, ties, memory in
        blocks, several predictions, 2 to 30 requests.
    seed : int, default 0
        Seed of the instances.

    Returns
    -------
    CheckReport
        Prints as a list. Each failure has the smallest instance found.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A bad argument, or not one policy.
    """
    specs = policy_specs(policy, deadlines=True)
    if len(specs) != 1:
        raise InvalidValueError(None, "policy", policy, "is not one policy")
    seed = as_integer(seed, None, "seed", minimum=0)
    count = as_integer(instances, None, "instances", minimum=1)
    cases = sorted(drawn_cases(count, seed), key=lambda case: len(case.instance))
    laboratory = Laboratory(specs[0])
    verdicts = tuple(_verdict(laboratory, name, cases) for name in CHECKS)
    needs_lengths = any(isinstance(laboratory.run(one).error, KnowledgeError) for one in cases)
    note = "it needs exact output lengths, and runs only if they are given"
    return CheckReport(f"policy {specs[0].label}", verdicts, (note,) * needs_lengths)


def _verdict(laboratory: Laboratory, name: str, cases: Sequence[Case]) -> Verdict:
    """Run a check on every case, and shrink the first one on which it fails."""
    asks, check = CHECKS[name]
    tried = [check(laboratory, case) for case in cases]
    checked, failed = len(tried) - tried.count(None), sum(map(bool, tried))
    if name == "runs" and not checked and (error := laboratory.run(cases[0]).error):
        reason = f"it refuses every instance: {one_line(error)}"
        return Verdict(name, asks, len(cases), len(cases), reason)
    if not failed:
        return Verdict(name, asks, checked)
    first = next(place for place, reason in enumerate(tried) if reason)
    # The last reason is that of the smallest case.
    reasons = [tried[first]]

    def fails(case: Case) -> bool:
        if found := check(laboratory, case):
            reasons.append(found)
        return bool(found)

    case = smallest(cases[first], fails)
    return Verdict(name, asks, checked, failed, reasons[-1], _reproduction(laboratory.spec, case))


def _reproduction(spec: PolicySpec, case: Case) -> str:
    """Return Python code that shows what a policy does in a case."""
    imported, made = _made(spec)
    options, names, service = "", "simulate", ""
    if case.predictions != EXACT:
        names = f"{type(case.predictions).__name__}, simulate"
        options = f", predictions={case.predictions!r}"
    if spec.make().reads_deadlines:
        options, service = f"{options}, level={LEVEL!r}", ", ServiceLevel"
    lines = [
        f"from instances import Instance, MemoryRule, Request{service}",
        f"from online import {names}",
        *imported,
        instance_lines(case.instance),
        f"policy = {made}",
        f"run = simulate(instance, policy, seed={case.seed}{options})",
        "print(run.status, run.start_rounds)",
    ]
    return "\n".join(lines)


def _made(spec: PolicySpec) -> tuple[list[str], str]:
    """Return imports and an expression for the policy: its text, or a call of its class.

    A class of a notebook or inside a function goes by its own name.
    """
    given = spec.own
    if given is None:
        return [], repr(spec.label)
    settings = ", ".join(f"{key}={value!r}" for key, value in sorted(spec.params.items()))
    maker: Any = type(given) if isinstance(given, Policy) else given
    path = getattr(maker, "__qualname__", "<unnamed>")
    name = path.rpartition(".")[2]
    if "<" in path or maker.__module__ == MAIN:
        return [], f"{name if name.isidentifier() else 'your_policy'}({settings})"
    if file := file_of(maker):
        return [], repr(f"{file}:{path}({settings})" if settings else f"{file}:{path}")
    return [f"from {maker.__module__} import {path.partition('.')[0]}"], f"{path}({settings})"


def _runs(laboratory: Laboratory, case: Case) -> Reason:
    error = laboratory.run(case).error
    if isinstance(error, (KnowledgeError, InvalidValueError, InvalidTypeError)):
        return None
    if error is None or isinstance(error, PolicyError):
        return ""
    return one_line(error) + users_line(error)


def _rules(laboratory: Laboratory, case: Case) -> Reason:
    error = laboratory.run(case).error
    if isinstance(error, PolicyError):
        return " ".join(str(error).split()) + users_line(error)
    return "" if error is None else None


def _ends(laboratory: Laboratory, case: Case) -> Reason:
    outcome = laboratory.run(case)
    if outcome.error is not None or outcome.status == COMPLETED:
        return None if outcome.error else ""
    why = UNSERVED[outcome.status]
    if outcome.status == "round-limit":
        why = f"not all end in {ROUNDS_TO_END} times the rounds that one after the other takes"
    requests = enumerate(case.instance.requests)
    left = [str(one.id) for k, one in requests if k not in outcome.completed]
    return f"{outcome.status}: {why}; not served: {', '.join(left)}"


_EARLIER = next(drawn_cases(1, 1))
"""The case that an object runs before it runs another one."""


def _deterministic(laboratory: Laboratory, case: Case) -> Reason:
    first = laboratory.run(case)
    if first.status != COMPLETED:
        return None
    second = play(case, laboratory.spec.make())
    if (second.moves, second.completed) != (first.moves, first.completed):
        laboratory.erratic = True
        return f"two objects with one seed differ: {_difference(first.moves, second.moves)}"
    used: Policy = laboratory.spec.make()
    for earlier in (_EARLIER, case):
        play(earlier, used)
    third = play(case, used)
    if third.error is not None:
        return f"an object that ran before fails: {one_line(third.error)}; reset() must forget"
    if (third.moves, third.completed) != (first.moves, first.completed):
        found = _difference(first.moves, third.moves)
        return f"an object that ran before differs from a new one: {found}; reset() must forget"
    return ""


def _lengths(laboratory: Laboratory, case: Case) -> Reason:
    found = []
    for altered, changed in other_lengths(case):
        if runs := laboratory.pair(case, altered):
            shows = min(run.completed[k] for run in runs for k in changed)
            lengths = [one.output_length for one in altered.instance.requests]
            what = f"with output lengths {lengths} behind the same predictions"
            found.append((runs, shows, what))
    return _first_difference(found)


def _future(laboratory: Laboratory, case: Case) -> Reason:
    found = []
    for altered, now in other_futures(case):
        if runs := laboratory.pair(case, altered):
            until = min(now, runs[0].drained, runs[1].drained)
            found.append((runs, until, f"with other requests arriving from round {now} on"))
    return _first_difference(found)


def _first_difference(pairs: Sequence[tuple[tuple[Outcome, Outcome], float, str]]) -> Reason:
    """Compare runs up to the round in which they may begin to differ."""
    for runs, until, what in pairs:
        one, other = ([moves for moves in run.moves if moves[0] < until] for run in runs)
        if one != other:
            return f"{what}, {_difference(one, other)}"
    return "" if pairs else None


def _difference(one: Sequence[Any], other: Sequence[Any]) -> str:
    """Return the first decision that is not the same, as text."""
    place = next(
        (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    texts = [
        _decision(*moves[place]) if place < len(moves) else "nothing" for moves in (one, other)
    ]
    return f"it decides {texts[0]} in one run and {texts[1]} in the other"


def _decision(round_index: int, decided: tuple[Any, ...]) -> str:
    names = ("start", "evict", "preempt", "hold", "prefill")
    parts = [f"{name} {list(what)}" for name, what in zip(names, decided, strict=True) if what]
    return f"{', '.join(parts)} for round {round_index + 1}"


CHECKS: dict[str, tuple[str, Check]] = {
    "runs": ("raises no error", _runs),
    "rules": ("keeps memory and the rules of starting", _rules),
    "ends": ("serves every request", _ends),
    "deterministic": ("equal seeds, equal decisions", _deterministic),
    "lengths": ("knows no output length that it is not given", _lengths),
    "future": ("knows nothing of arrivals to come", _future),
}
"""By name: the property in a few words, and the function that checks it on a case."""
