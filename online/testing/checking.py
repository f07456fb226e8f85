"""`check_policy`: determinism, no peeking, the rules, no starvation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
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
    options = f"seed={case.seed}"
    if case.predictions != EXACT:
        options += f", predictions=online.{case.predictions!r}"
    if spec.make().reads_deadlines:
        options += f", level={LEVEL!r}"
    lines = [
        "import online",
        "from instances import Instance, MemoryRule, Request, ServiceLevel",
        instance_lines(case.instance),
        f"policy = {_made(spec)}",
        f"run = online.simulate(instance, policy, {options})",
        "print(run.status, run.start_rounds)",
    ]
    return "\n".join(lines)


def _made(spec: PolicySpec) -> str:
    """Return an expression for the policy: its text, or a call of a class that has none.

    A class of a notebook or inside a function goes by its own name.
    """
    if spec.own is None:
        return repr(spec.label)
    settings = ", ".join(f"{key}={value!r}" for key, value in sorted(spec.params.items()))
    maker: Any = type(spec.own) if isinstance(spec.own, Policy) else spec.own
    path = getattr(maker, "__qualname__", "<unnamed>")
    name = path.rpartition(".")[2]
    if "<" in path or maker.__module__ == MAIN:
        return f"{name if name.isidentifier() else 'your_policy'}({settings})"
    return repr(f"{file_of(maker) or maker.__module__}:{path}({settings})")


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
    run = laboratory.run(case).run
    if run is None or run.status == COMPLETED:
        return None if run is None else ""
    why = UNSERVED[run.status]
    if run.status == "round-limit":
        why = f"not all end in {ROUNDS_TO_END} times the rounds that one after the other takes"
    ends = zip(case.instance.requests, run.completion_rounds, strict=True)
    left = [str(one.id) for one, end in ends if end < 0]
    return f"{run.status}: {why}; not served: {', '.join(left)}"


_EARLIER = next(drawn_cases(1, 1))
"""The case that an object runs before it runs another one."""


def _deterministic(laboratory: Laboratory, case: Case) -> Reason:
    first = laboratory.run(case)
    if not first.ends:
        return None
    second = play(case, laboratory.spec.make())
    if (second.moves, second.ends) != (first.moves, first.ends):
        laboratory.erratic = True
        return f"two objects with one seed differ: {_difference(first.moves, second.moves)}"
    used: Policy = laboratory.spec.make()
    for earlier in (_EARLIER, case):
        play(earlier, used)
    third = play(case, used)
    if third.error is not None:
        return f"an object that ran before fails: {one_line(third.error)}; reset() must forget"
    if (third.moves, third.ends) != (first.moves, first.ends):
        found = _difference(first.moves, third.moves)
        return f"an object that ran before differs from a new one: {found}; reset() must forget"
    return ""


def _lengths(laboratory: Laboratory, case: Case) -> Reason:
    found: list[tuple[str, float, list[Outcome]]] = []
    for altered, changed in other_lengths(case):
        if runs := laboratory.pair(case, altered):
            shows = min(run.ends[k] for run in runs for k in changed)
            lengths = [one.output_length for one in altered.instance.requests]
            found.append((f"output lengths {lengths} behind the same predictions", shows, runs))
    return _first_difference(found)


def _future(laboratory: Laboratory, case: Case) -> Reason:
    found: list[tuple[str, float, list[Outcome]]] = []
    for altered, now in other_futures(case):
        if runs := laboratory.pair(case, altered):
            until = min(now, *(run.drained for run in runs))
            found.append((f"other requests arriving from round {now} on", until, runs))
    return _first_difference(found)


def _first_difference(pairs: Sequence[tuple[str, float, list[Outcome]]]) -> Reason:
    """Compare runs up to the round in which they may begin to differ."""
    for what, until, runs in pairs:
        one, other = ([moves for moves in run.moves if moves[0] < until] for run in runs)
        if one != other:
            return f"with {what}, {_difference(one, other)}"
    return "" if pairs else None


def _difference(one: Sequence[Any], other: Sequence[Any]) -> str:
    """Return the first decision that is not the same, as text."""
    pairs = zip_longest(one, other, fillvalue=(0, ()))
    texts = next([_decision(*a), _decision(*b)] for a, b in pairs if a != b)
    return f"it decides {texts[0]} in one run and {texts[1]} in the other"


def _decision(round_index: int, decided: tuple[Any, ...]) -> str:
    names = ("start", "evict", "preempt", "hold", "prefill")
    parts = [f"{name} {list(what)}" for name, what in zip(names, decided) if what]  # noqa: B905
    return f"{', '.join(parts)} for round {round_index + 1}" if parts else "nothing"


CHECKS: dict[str, tuple[str, Check]] = {
    "runs": ("raises no error", _runs),
    "rules": ("keeps memory and the rules of starting", _rules),
    "ends": ("serves every request", _ends),
    "deterministic": ("equal seeds, equal decisions", _deterministic),
    "lengths": ("knows no output length that it is not given", _lengths),
    "future": ("knows nothing of arrivals to come", _future),
}
"""By name: the property in a few words, and the function that checks it on a case."""
