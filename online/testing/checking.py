"""`check_policy`: determinism, no peeking, the rules, no starvation."""

from __future__ import annotations

import os
import pickle
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from hindsight.testing import CheckError, CheckReport, Verdict, instance_lines
from instances import Instance, InvalidTypeError, InvalidValueError
from instances.sources import MAIN
from instances.user_modules import file_of, users_line
from instances.validation import as_integer
from online.comparison.trial import COMPLETED, UNSERVED, one_line
from online.policy_interface.policy import Policy, own_policy
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs

from .cases import (
    EXACT,
    Case,
    drawn_cases,
    given_cases,
    other_futures,
    other_lengths,
    other_order,
    smallest,
)
from .watching import LEVEL, ROUNDS_TO_END, Outcome, play

Reason: TypeAlias = "str | None"
"""The reason of a failure; None if the check passed."""


class NotTriedError(Exception):
    """The check does not apply to the case, or another check reports the fault."""


class PolicyCheckError(CheckError):
    """A policy does not hold what every policy must; the message is the report."""


@dataclass(frozen=True)
class PolicyReport(CheckReport):
    """Result of `check_policy`.

    Attributes
    ----------
    policy : str
        Its label.
    """

    @property
    def policy(self) -> str:
        """Return the label of the policy."""
        return self.subject.removeprefix("policy ")

    def raise_for_failures(self) -> None:
        """Do nothing where every check passed.

        Raises
        ------
        PolicyCheckError
            With the report.
        """
        if self.failures:
            raise PolicyCheckError(str(self))


def check_policy(
    policy: AnyPolicy,
    instances: int | Iterable[Instance] = 100,
    *,
    seed: int = 0,
    by_design: Iterable[str] = (),
    hash_seed: bool = True,
) -> PolicyReport:
    """Try a policy on instances, and say what it does not hold that every policy must.

    * runs: it raises no error.
    * rules: memory is kept, nothing is started that is not waiting, and no random number is drawn
      unless the policy is `Policy.randomized`.
    * ends: every request is served; endless evictions and a policy that starts nothing are told.
    * deterministic: equal seeds give equal decisions, whatever the object ran before and however
      Python hashes texts.
    * lengths: decisions do not change with output lengths behind equal predictions, until one of
      them shows by its end.
    * future: decisions do not change with the requests that are still to come.

    What cannot be seen in decisions, such as a look at the simulator's inside that changes none, is
    not found. A decision that never returns is not broken off.

    Parameters
    ----------
    policy : AnyPolicy
        As `online.compare` takes it.
    instances : int or Iterable[Instance], default 100
        How many to draw: all at once and with arrivals, tight memory, ties, memory in blocks,
        several predictions, 2 to 30 requests. Or instances to try instead; each is run with exact
        lengths, and with lengths of which only the longest of all is told.
    seed : int, default 0
        Of the instances.
    by_design : Iterable[str], optional
        Names of checks that the policy is known not to pass.
    hash_seed : bool, default True
        Whether the runs are repeated in a new process, where texts have other hashes.

    Returns
    -------
    PolicyReport
        Printed, it is a list. Each failure has the smallest instance found.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A bad argument, or what is given makes no policy.
    """
    specs = policy_specs(policy, deadlines=True)
    if len(specs) != 1:
        raise InvalidValueError(None, "policy", policy, "is not one policy")
    names = [check.name for check in _CHECKS]
    expected = set(by_design)
    for name in expected - set(names):
        reason = f"is not one of the checks ({', '.join(names)})"
        raise InvalidValueError(None, "by_design", name, reason)
    seed = as_integer(seed, None, "seed", minimum=0)
    if isinstance(instances, Iterable):
        given = list(instances)
        for one in given:
            if not isinstance(one, Instance):
                raise InvalidTypeError(None, "instances", one, "is not an Instance")
        cases = list(given_cases(given))
    else:
        count = as_integer(instances, None, "instances", minimum=1)
        cases = list(drawn_cases(count, seed))
    cases.sort(key=lambda case: len(case.instance))
    laboratory = _Laboratory(specs[0])
    verdicts = []
    for check in _CHECKS:
        verdict = _verdict(laboratory, check, cases, by_design=check.name in expected)
        if hash_seed and check.name == _DETERMINISTIC and not verdict.failed:
            verdict = _with_other_hashes(laboratory, verdict, cases)
        verdicts.append(verdict)
    subject = f"policy {specs[0].label}"
    return PolicyReport(subject, tuple(verdicts), tuple(_notes(laboratory, cases)))


class _Laboratory:
    """A policy and its runs, each made once.

    Attributes
    ----------
    erratic : bool
        Whether two runs of one case differed: what then differs between two cases tells nothing.
    """

    def __init__(self, spec: PolicySpec) -> None:
        self.spec = spec
        self.erratic = False
        self._runs: dict[tuple[str, str, int], Outcome] = {}

    def run(self, case: Case) -> Outcome:
        """Return the outcome of a new object."""
        if case.key not in self._runs:
            self._runs[case.key] = play(case, self.spec.make())
        return self._runs[case.key]

    def sound(self, case: Case) -> Outcome:
        """Return the same outcome, if no error ended it."""
        outcome = self.run(case)
        if outcome.error is not None:
            raise NotTriedError
        return outcome

    def pair(self, case: Case, other: Case) -> tuple[Outcome, Outcome] | None:
        """Runs to be held against each other; where one is cut short, its end tells nothing."""
        if self.erratic or self.run(case).status != COMPLETED:
            return None
        altered = self.run(other)
        return (self.run(case), altered) if altered.status == COMPLETED else None


class _Check(NamedTuple):
    name: str
    asks: str
    reason: Callable[[_Laboratory, Case], Reason]


def _verdict(
    laboratory: _Laboratory, check: _Check, cases: Sequence[Case], *, by_design: bool
) -> Verdict:
    """Run a check on every case, and shrink the first one on which it fails."""
    reasons: list[str] = []

    def fails(case: Case) -> bool | None:
        """Return None if there is nothing to check."""
        try:
            found = check.reason(laboratory, case)
        except NotTriedError:
            return None
        if found is not None:
            reasons.append(found)
        return found is not None

    tried = [fails(case) for case in cases]
    checked, failed = len(tried) - tried.count(None), tried.count(True)
    verdict = Verdict(check.name, check.asks, checked, failed, by_design=by_design)
    if check.name == "runs" and not checked:
        error = laboratory.run(cases[0]).error
        reason = f"it refuses every instance: {one_line(error)}" if error else None
        return replace(verdict, checked=len(cases), failed=len(cases), reason=reason)
    if not failed:
        return verdict
    # Of the failures below, the last is that of the smallest case; without any, it is the first.
    del reasons[1:]
    found = smallest(cases[tried.index(True)], lambda case: bool(fails(case)))
    lines = _reproduction(laboratory.spec, found)
    return replace(verdict, reason=reasons[-1], reproduction=lines)


def _reproduction(spec: PolicySpec, case: Case) -> str:
    """Write Python that shows what a policy does in a case."""
    imported, call = _made(spec)
    told, names = "", "simulate"
    if case.predictions != EXACT:
        names = f"{type(case.predictions).__name__}, simulate"
        told = f", predictions={case.predictions!r}"
    service = ""
    if spec.make().reads_deadlines:
        told, service = f"{told}, level={LEVEL!r}", ", ServiceLevel"
    lines = [
        f"from instances import Instance, MemoryRule, Request{service}",
        f"from online import {names}",
        *imported,
        instance_lines(case.instance),
        f"policy = {call}",
        f"run = simulate(instance, policy, seed={case.seed}{told})",
        "print(run.status, run.start_rounds)",
    ]
    return "\n".join(lines)


def _made(spec: PolicySpec) -> tuple[list[str], str]:
    """The imports and the expression that make a policy, where the reader has its class or file.

    What is defined in a notebook or inside a function goes by the name that the reader gave it.
    """
    settings = ", ".join(f"{key}={value!r}" for key, value in sorted(spec.params.items()))
    given = own_policy(spec.name) if spec.given is None else spec.given
    if given is None:
        named = ", ".join(filter(None, (repr(spec.name), settings)))
        return ["from online import make_policy"], f"make_policy({named})"
    maker: Any = type(given) if isinstance(given, Policy) else given
    path = getattr(maker, "__qualname__", "<unnamed>")
    name = path.rpartition(".")[2]
    if "<" in path or maker.__module__ == MAIN:
        return [], f"{name if name.isidentifier() else 'your_policy'}({settings})"
    if file := file_of(maker):
        text = f"{file}:{path}({settings})" if settings else f"{file}:{path}"
        return [
            "from online.policy_interface.specs import read_policy"
        ], f"read_policy({text!r}).make()"
    return [f"from {maker.__module__} import {path.partition('.')[0]}"], f"{path}({settings})"


# --- the checks --------------------------------------------------------------------------------


def _runs(laboratory: _Laboratory, case: Case) -> Reason:
    outcome = laboratory.run(case)
    error = outcome.error
    if outcome.needs_lengths or isinstance(error, (InvalidValueError, InvalidTypeError)):
        raise NotTriedError
    if error is None or outcome.broke_a_rule:
        return None
    return one_line(error) + users_line(error)


def _rules(laboratory: _Laboratory, case: Case) -> Reason:
    outcome = laboratory.run(case)
    if outcome.error is None:
        return None
    if not outcome.broke_a_rule:
        raise NotTriedError
    return " ".join(str(outcome.error).split()) + users_line(outcome.error)


def _ends(laboratory: _Laboratory, case: Case) -> Reason:
    outcome = laboratory.sound(case)
    if outcome.status == COMPLETED:
        return None
    ids = [str(one.id) for one in case.instance.requests]
    left = [name for k, name in enumerate(ids) if k not in outcome.completed]
    told = UNSERVED[outcome.status]
    if outcome.status == "round-limit":
        told = f"not all end in {ROUNDS_TO_END} times the rounds that one after the other takes"
    back = Counter(k for _, (_, *sent) in outcome.moves for which in sent[:2] for k in which)
    often = "".join(f"; {ids[k]} is sent back {times} times" for k, times in back.most_common(1))
    return f"{outcome.status}: {told}; not served: {', '.join(left)}{often}"


_DETERMINISTIC = "deterministic"
_EARLIER = next(drawn_cases(1, 1))
"""What an object runs before it runs something else."""


def _deterministic(laboratory: _Laboratory, case: Case) -> Reason:
    first = laboratory.sound(case)
    if first.status != COMPLETED:
        raise NotTriedError  # and it takes long
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
    return None


def _lengths(laboratory: _Laboratory, case: Case) -> Reason:
    found = []
    for altered, changed in other_lengths(case):
        if runs := laboratory.pair(case, altered):
            shows = min(run.completed[k] for run in runs for k in changed)
            lengths = [one.output_length for one in altered.instance.requests]
            told = f"with output lengths {lengths} behind the same predictions"
            found.append((runs, shows, told))
    return _first_difference(found)


def _future(laboratory: _Laboratory, case: Case) -> Reason:
    found = []
    for altered, now in other_futures(case):
        if runs := laboratory.pair(case, altered):
            until = min(now, runs[0].told_end, runs[1].told_end)
            found.append((runs, until, f"with other requests arriving from round {now} on"))
    return _first_difference(found)


def _first_difference(pairs: Sequence[tuple[tuple[Outcome, Outcome], float, str]]) -> Reason:
    """Compare runs up to the round in which they may begin to differ, and say how they differ."""
    if not pairs:
        raise NotTriedError
    for (one, other), until, told in pairs:
        if one.until(until) != other.until(until):
            return f"{told}, {_difference(one.until(until), other.until(until))}"
    return None


def _difference(one: Sequence[object], other: Sequence[object]) -> str:
    """The first decision that is not the same."""
    place = next(
        (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    told = [_told(moves[place] if place < len(moves) else None) for moves in (one, other)]
    return f"it decides {told[0]} in one run and {told[1]} in the other"


def _told(moves: object) -> str:
    if not isinstance(moves, tuple):
        return "nothing more"
    round_index, (start, *others) = moves
    names = ("evict", "preempt", "hold", "prefill")
    parts = [f"start {list(start)}"] if start else []
    parts += [f"{name} {list(what)}" for name, what in zip(names, others, strict=True) if what]
    return f"{', '.join(parts)} for round {round_index + 1}"


_CHECKS = (
    _Check("runs", "raises no error", _runs),
    _Check("rules", "keeps memory and the rules of starting", _rules),
    _Check("ends", "serves every request", _ends),
    _Check(_DETERMINISTIC, "equal seeds, equal decisions", _deterministic),
    _Check("lengths", "knows no output length that it is not told", _lengths),
    _Check("future", "knows nothing of arrivals to come", _future),
)


# --- beside the checks -------------------------------------------------------------------------


def _with_other_hashes(laboratory: _Laboratory, verdict: Verdict, cases: Sequence[Case]) -> Verdict:
    """Repeat the runs in a process where sets of texts have another order."""
    import cloudpickle

    sound = [case for case in cases if laboratory.run(case).error is None]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    ran = subprocess.run(
        [sys.executable, "-c", "from online.testing.checking import answer; answer()"],
        input=cloudpickle.dumps((laboratory.spec, sound)),
        capture_output=True,
        env=environment,
        check=False,
    )
    if ran.returncode:
        last = ran.stderr.decode(errors="replace").strip().splitlines()[-1:]
        reason = f"a new process cannot run it: {' '.join(last)}"
        return Verdict(verdict.name, verdict.asks, len(sound), len(sound), reason)
    there = pickle.loads(ran.stdout)  # noqa: S301 (from a process of our own)
    failing = [
        (case, moves)
        for case, moves in zip(sound, there, strict=True)
        if moves != laboratory.run(case).moves
    ]
    if not failing:
        return verdict
    case, moves = failing[0]
    found = _difference(laboratory.run(case).moves, moves)
    reason = f"with PYTHONHASHSEED={seed}, {found}; sets of texts have no order"
    lines = _reproduction(laboratory.spec, case)
    return replace(verdict, failed=len(failing), reason=reason, reproduction=lines)


def answer() -> None:
    """Write the decisions in every case to standard output, in the new process."""
    spec, cases = pickle.load(sys.stdin.buffer)  # noqa: S301 (from the process that asks)
    output, sys.stdout = sys.stdout, sys.stderr
    moves = [play(case, spec.make()).moves for case in cases]
    output.buffer.write(pickle.dumps(moves))


def _notes(laboratory: _Laboratory, cases: Sequence[Case]) -> list[str]:
    notes = []
    runs = [laboratory.run(case) for case in cases]
    refused = [
        run.error for run in runs if isinstance(run.error, (InvalidValueError, InvalidTypeError))
    ]
    if refused:
        notes.append(f"it refuses {len(refused)} instances: {one_line(refused[0])}")
    if any(run.needs_lengths for run in runs):
        notes.append("it needs exact output lengths, and runs only where they are told")
    changed, tried = 0, 0
    for case, run in zip(cases, runs, strict=True):
        if run.total_latency is not None:
            tried += 1
            changed += laboratory.run(other_order(case)).total_latency != run.total_latency
    if changed:
        notes.append(
            f"on {changed} of {tried} instances the total latency depends on the order in which "
            "requests of one round are listed"
        )
    seconds = [one for run in runs for one in run.seconds]
    if seconds:
        typical, longest = (1000 * one for one in (statistics.median(seconds), max(seconds)))
        notes.append(f"a decision takes {typical:.2g} ms, at most {longest:.2g} ms")
    return notes
