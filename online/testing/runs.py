"""Runs of a policy with every decision recorded."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from instances import ServiceLevel
from online.policy_interface.policy import (
    Decision,
    KnowledgeError,
    Policy,
    PolicyError,
    State,
    VisibleRequest,
)
from online.policy_interface.specs import PolicySpec
from online.simulation.simulator import simulate

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
    seconds : list[float]
        Processing time of every decision.
    status : str
        As `Run.status`; ``"failed"`` if an error ended the run.
    total_latency : int or None
        Total latency of a run that served every request.
    error : Exception or None
        The error that ended the run.
    drained : float
        Round in which the policy was told that nothing more will come; infinite if it was not.
    """

    moves: list[Moves] = field(default_factory=list)
    completed: dict[int, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    status: str = "failed"
    total_latency: int | None = None
    error: Exception | None = None
    drained: float = math.inf

    @property
    def broke_a_rule(self) -> bool:
        """Return whether the simulator refused a decision."""
        return isinstance(self.error, PolicyError)

    @property
    def needs_lengths(self) -> bool:
        """Return whether the policy asked for exact lengths that it is not given."""
        return isinstance(self.error, KnowledgeError)

    def until(self, round_index: float) -> list[Moves]:
        """Return the decisions before a round is run."""
        return [moves for moves in self.moves if moves[0] < round_index]


def play(case: Case, policy: Policy) -> Outcome:
    """Run a policy on a case. Whatever the policy raises is in the outcome."""
    outcome = Outcome()
    requests = case.instance.requests
    in_turn = sum(one.prompt_length + one.output_length for one in requests)
    _record(policy, outcome)
    try:
        run = simulate(
            case.instance,
            policy,
            seed=case.seed,
            predictions=case.predictions,
            max_rounds=requests[-1].arrival_time + ROUNDS_TO_END * in_turn,
            level=LEVEL if policy.reads_deadlines else None,
        )
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        outcome.error = error
        return outcome
    finally:
        for name in ("decide", "complete", "drain"):
            del vars(policy)[name]
    outcome.status = run.status
    if run.status == "completed":
        outcome.total_latency = int(run.total_latency)
    return outcome


def _record(policy: Policy, outcome: Outcome) -> None:
    """Let three methods of the object write to the outcome."""
    decide, complete, drain = policy.decide, policy.complete, policy.drain

    def decides(state: State) -> Decision:
        began = time.perf_counter()
        decision = decide(state)
        outcome.seconds.append(time.perf_counter() - began)
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
        if self.erratic or self.run(case).status != "completed":
            return None
        altered = self.run(other)
        return (self.run(case), altered) if altered.status == "completed" else None
