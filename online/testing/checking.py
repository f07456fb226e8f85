"""`check_policy`: test a policy on random instances for errors, broken rules and hidden knowledge.

It also tests whether all requests are served, and whether equal seeds give equal runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeAlias

from hindsight.testing import CheckReport, Verdict, instance_lines
from instances import InvalidTypeError, InvalidValueError, ServiceLevel
from instances.user_modules import MAIN, file_of, users_line
from instances.validation import as_integer
from online.policy_interface.policy import Decision, KnowledgeError, Policy, PolicyError, State
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs
from online.simulation.run import Run
from online.simulation.simulator import simulate
from online.trials.task import UNSERVED
from online.trials.trial import COMPLETED, one_line

from .cases import EXACT, Case, drawn_cases, other_futures, other_lengths, smallest

ROUNDS_TO_END = 10
"""Limit on the rounds of a run: this number times the rounds to serve requests one by one."""

LEVEL = ServiceLevel(latency=30, time_per_token=4)
"""Service level for policies that need one. In the drawn cases only some requests can meet it."""

Reason: TypeAlias = "str | None"
"""Result of a check on a case: why it failed, "" if it passed, None if it does not apply."""


@dataclass
class Outcome:
    """Decisions of a policy on a case, and the run or the error with which it ended.

    Attributes
    ----------
    moves : list[tuple[int, str]]
        Round and text of every decision that is not empty, such as one that starts requests.
    run : Run or None
        The run. None if an error ended it.
    error : Exception or None
        The error that ended the run. None without one.
    """

    moves: list[tuple[int, str]] = field(default_factory=list)
    run: Run | None = None
    error: Exception | None = None

    @property
    def ends(self) -> list[int]:
        """Round in which each request completed, by index. Empty if some request did not."""
        if self.run is None or self.run.status != COMPLETED:
            return []
        ends: list[int] = self.run.completion_rounds.tolist()
        return ends

    @property
    def drained(self) -> float:
        """Round in which the policy stopped waiting for more requests. Infinite if it never did."""
        drained = None if self.run is None else self.run.drain_round
        return math.inf if drained is None else drained


def play(case: Case, policy: Policy) -> Outcome:
    """Run a policy on a case. Return the outcome, with the error if the policy raised one."""
    outcome, decide = Outcome(), policy.decide

    def decides(state: State) -> Decision:
        decision, now = decide(state), state.round_index
        if isinstance(decision, Decision):
            shown: dict[str, list[Any]] = {
                "start": [*decision.start],
                "evict": [*decision.evict],
                "preempt": [*decision.preempt],
                "hold": sorted(decision.hold),
                "prefill": sorted(decision.prefill.items()),
            }
            text = ", ".join(f"{name} {value}" for name, value in shown.items() if value)
            outcome.moves += [(now, f"{text} for round {now + 1}")] * bool(text)
        return decision

    requests = case.instance.requests
    in_turn = sum(one.prompt_length + one.output_length for one in requests)
    vars(policy)["decide"] = decides
    try:
        outcome.run = simulate(
            case.instance,
            policy,
            seed=case.seed,
            predictions=case.predictions,
            max_rounds=requests[-1].arrival_time + ROUNDS_TO_END * in_turn,
            level=LEVEL if policy.reads_deadlines else None,
        )
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        outcome.error = error
    finally:
        del vars(policy)["decide"]
    return outcome


class Laboratory:
    """A policy under test, and a cache of the outcomes of its runs.

    Attributes
    ----------
    erratic : bool
        Whether two runs of the same case differed. Comparisons of runs of different cases then
        prove nothing, so the checks that make them are left out.
    """

    def __init__(self, spec: PolicySpec) -> None:
        self.spec, self.erratic = spec, False
        self._runs: dict[tuple[str, str, int], Outcome] = {}

    def run(self, case: Case) -> Outcome:
        """Return the outcome of a run of the policy on a case.

        A new policy object is made and run, unless the outcome is in the cache.
        """
        if case.key not in self._runs:
            self._runs[case.key] = play(case, self.spec.make())
        return self._runs[case.key]


def check_policy(policy: AnyPolicy, instances: int = 100, *, seed: int = 0) -> CheckReport:
    """Run a policy on random instances, and report which properties of every policy it lacks.

    * runs: it raises no error.
    * rules: memory is kept, only waiting requests are started, and random numbers are drawn only if
      the policy is `Policy.randomized`.
    * ends: every request is served.
    * deterministic: equal seeds give equal decisions, whatever the object ran before.
    * lengths: if output lengths change and their predictions do not, decisions stay the same until
      one of the changed requests ends.
    * future: decisions do not depend on the requests that are still to come.

    If a policy reads the simulator's internals without changing a decision, the checks do not find
    this. They do not stop a decision that never returns.

    Parameters
    ----------
    policy : AnyPolicy
        As `online.simulate` takes it.
    instances : int, default 100
        Number of instances to draw, of several kinds: all requests at once or arrivals over time,
        tight memory, ties, memory in blocks, several prediction models, 2 to 30 requests.
    seed : int, default 0
        Seed of the instances.

    Returns
    -------
    CheckReport
        It prints as a list of the checks. A failed check has the smallest failing instance found.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        An argument is invalid, or ``policy`` is several policies.
    """
    (spec,) = policy_specs([policy], deadlines=True)
    seed = as_integer(seed, None, "seed", minimum=0)
    count = as_integer(instances, None, "instances", minimum=1)
    cases = sorted(drawn_cases(count, seed), key=lambda case: len(case.instance))
    laboratory = Laboratory(spec)
    verdicts = tuple(_verdict(laboratory, name, cases) for name in CHECKS)
    needs_lengths = any(isinstance(laboratory.run(one).error, KnowledgeError) for one in cases)
    note = "it needs exact output lengths, and runs only if they are given"
    return CheckReport(f"policy {spec.label}", verdicts, (note,) * needs_lengths)


def _verdict(laboratory: Laboratory, name: str, cases: Sequence[Case]) -> Verdict:
    """Run the check ``name`` on every case. If it fails, shrink the first case that fails."""
    asks, check = CHECKS[name]
    tried = [check(laboratory, case) for case in cases]
    checked, failing = len(tried) - tried.count(None), [k for k, why in enumerate(tried) if why]
    if name == "runs" and not checked and (error := laboratory.run(cases[0]).error):
        reason = f"it refuses every instance: {one_line(error)}"
        return Verdict(name, asks, len(cases), len(cases), reason)
    if not failing:
        return Verdict(name, asks, checked)
    laboratory.erratic |= name == "deterministic"
    # ``reasons`` has the reasons of all failing cases in the order in which they were tried.
    # Smaller cases are tried later, so the last reason is that of the smallest case.
    reasons = [tried[failing[0]]]

    def fails(case: Case) -> bool:
        reasons.extend(filter(None, [found := check(laboratory, case)]))
        return bool(found)

    case = smallest(cases[failing[0]], fails)
    lines = _reproduction(laboratory.spec, case)
    return Verdict(name, asks, checked, len(failing), reasons[-1], lines)


def _reproduction(spec: PolicySpec, case: Case) -> str:
    """Return Python code, as text, that repeats the run of a policy on a case."""
    options = f"seed={case.seed}"
    if case.predictions != EXACT:
        options += f", predictions=online.{case.predictions!r}"
    if spec.make().reads_deadlines:
        options += f", level={LEVEL!r}"
    return (
        "import online\nfrom instances import Instance, MemoryRule, Request, ServiceLevel\n"
        f"{instance_lines(case.instance)}\npolicy = {_made(spec)}\n"
        f"run = online.simulate(instance, policy, {options})\nprint(run.status, run.start_rounds)"
    )


def _made(spec: PolicySpec) -> str:
    """Return a Python expression for a policy: text for `make_policy`, or a call of its class.

    The text has the name of the policy, for a user's class with its file or module. A class in a
    notebook or inside a function has no such name, so it is called.
    """
    if spec.own is None:
        return repr(spec.label)
    settings = ", ".join(f"{key}={value!r}" for key, value in sorted(spec.params.items()))
    maker: Any = type(spec.own) if isinstance(spec.own, Policy) else spec.own
    name = getattr(maker, "__qualname__", "your_policy")
    if "<" in name or maker.__module__ == MAIN:
        return f"{name.rpartition('.')[2]}({settings})"
    return repr(f"{file_of(maker) or maker.__module__}:{name}({settings})")


def _runs(laboratory: Laboratory, case: Case) -> Reason:
    error = laboratory.run(case).error
    if isinstance(error, KnowledgeError | InvalidValueError | InvalidTypeError):
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
        why = f"requests are left after {ROUNDS_TO_END} times the rounds to serve them one by one"
    ends = zip(case.instance.requests, run.completion_rounds, strict=True)
    left = [str(one.id) for one, end in ends if end < 0]
    return f"{run.status}: {why}; not served: {', '.join(left)}"


Pairs: TypeAlias = Iterator[tuple[str, float, Outcome]]
"""Runs to compare a run with: (description, first round that may differ, outcome) of each."""

_EARLIER = next(drawn_cases(1, 1))
"""Case that a policy object runs before another case, to test that `reset` clears its state."""


def _repeated(laboratory: Laboratory, case: Case) -> Pairs:
    yield "two objects with one seed differ", math.inf, play(case, laboratory.spec.make())
    used: Policy = laboratory.spec.make()
    for earlier in (_EARLIER, case):
        play(earlier, used)
    what = "an object that ran before differs from a new one (reset() must forget)"
    yield what, math.inf, play(case, used)


def _with_other_lengths(laboratory: Laboratory, case: Case) -> Pairs:
    for altered, changed in other_lengths(case):
        runs = laboratory.run(case), laboratory.run(altered)
        if runs[1].ends:
            shows = min(run.ends[k] for run in runs for k in changed)
            lengths = [one.output_length for one in altered.instance.requests]
            yield f"with output lengths {lengths} behind the same predictions", shows, runs[1]


def _with_another_future(laboratory: Laboratory, case: Case) -> Pairs:
    for altered, now in other_futures(case):
        other = laboratory.run(altered)
        if other.ends:
            until = min(now, other.drained, laboratory.run(case).drained)
            yield f"with other requests arriving from round {now} on", until, other


def _same(pairs: Callable[[Laboratory, Case], Pairs]) -> Callable[[Laboratory, Case], Reason]:
    """Return a check that a run of a case makes the same decisions as other runs up to some round.

    ``pairs`` yields these other runs, with the first round in which the decisions may differ.
    """

    def check(laboratory: Laboratory, case: Case) -> Reason:
        first, reason = laboratory.run(case), None
        if not first.ends or (laboratory.erratic and pairs is not _repeated):
            return None
        for what, until, other in pairs(laboratory, case):
            reason = ""
            moves = [[move for move in run.moves if move[0] < until] for run in (first, other)]
            for one, another in zip_longest(*moves, fillvalue=(0, "nothing")):
                if one != another:
                    return f"{what}: it decides {one[1]} in one run and {another[1]} in the other"
        return reason

    return check


CHECKS: dict[str, tuple[str, Callable[[Laboratory, Case], Reason]]] = {
    "runs": ("raises no error", _runs),
    "rules": ("keeps memory and the rules of starting", _rules),
    "ends": ("serves every request", _ends),
    "deterministic": ("equal seeds, equal decisions", _same(_repeated)),
    "lengths": ("knows no output length that it is not given", _same(_with_other_lengths)),
    "future": ("knows nothing of arrivals to come", _same(_with_another_future)),
}
"""Checks by name: the property in a few words, and the function that tests it on a case."""
