"""Runs of a policy with every decision recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from instances import ServiceLevel
from online.policy_interface.policy import Decision, Policy, State, VisibleRequest
from online.policy_interface.specs import PolicySpec
from online.simulation.simulator import simulate
from online.trials.trial import COMPLETED

from .cases import Case

ROUNDS_TO_END = 10
"""A run fails after this many times the rounds of serving one request after the other."""

LEVEL = ServiceLevel(latency=30, time_per_token=4)
"""For policies that need a service level: in the drawn cases some requests can keep it."""

Moves = tuple[int, tuple[Any, ...]]
"""A round, and the decision for it."""


@dataclass
class Outcome:
    """Outcome of a run.

    Attributes
    ----------
    moves : list[Moves]
        Every decision.
    completed : dict[int, int]
        Round in which each request ended, by index.
    status : str
        As `Run.status`; ``"failed"`` if an error ended the run.
    error : Exception or None
        The error that ended the run.
    drained : float
        Round in which the policy was told that nothing more will come; infinite if it was not.
    """

    moves: list[Moves] = field(default_factory=list)
    completed: dict[int, int] = field(default_factory=dict)
    status: str = "failed"
    error: Exception | None = None
    drained: float = math.inf


def play(case: Case, policy: Policy) -> Outcome:
    """Run a policy on a case. Whatever the policy raises is in the outcome."""
    outcome = Outcome()
    requests = case.instance.requests
    in_turn = sum(one.prompt_length + one.output_length for one in requests)
    _record(policy, outcome)
    try:
        outcome.status = simulate(
            case.instance,
            policy,
            seed=case.seed,
            predictions=case.predictions,
            max_rounds=requests[-1].arrival_time + ROUNDS_TO_END * in_turn,
            level=LEVEL if policy.reads_deadlines else None,
        ).status
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        outcome.error = error
    finally:
        for name in ("decide", "complete", "drain"):
            del vars(policy)[name]
    return outcome


def _record(policy: Policy, outcome: Outcome) -> None:
    """Let three methods of the object write to the outcome."""
    decide, complete, drain = policy.decide, policy.complete, policy.drain

    def decides(state: State) -> Decision:
        decision = decide(state)
        if isinstance(decision, Decision):
            moves = (
                *map(tuple, (decision.start, decision.evict, decision.preempt)),
                tuple(sorted(decision.hold)),
                tuple(sorted(decision.prefill.items())),
            )
            if any(moves):
                outcome.moves.append((state.round_index, moves))
        return decision

    def completes(requests: Sequence[VisibleRequest], state: State) -> None:
        outcome.completed |= {request.index: state.round_index for request in requests}
        complete(requests, state)

    def drains(state: State) -> bool:
        outcome.drained = min(outcome.drained, state.round_index)
        return drain(state)

    vars(policy).update(decide=decides, complete=completes, drain=drains)


class Laboratory:
    """A policy and its runs, each made once.

    Attributes
    ----------
    erratic : bool
        Whether two runs of one case differed. A difference between two cases then proves nothing.
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

    def pair(self, case: Case, other: Case) -> tuple[Outcome, Outcome] | None:
        """Return two runs to compare; None if one was ended early or the policy is erratic."""
        if self.erratic or self.run(case).status != COMPLETED:
            return None
        runs = self.run(case), self.run(other)
        return runs if runs[1].status == COMPLETED else None
