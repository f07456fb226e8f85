"""Runs of a policy with every decision recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from instances import ServiceLevel
from online.policy_interface import Decision, Policy, State
from online.policy_interface.specs import PolicySpec
from online.simulation.run import Run
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
    run : Run or None
        The run; None if an error ended it.
    error : Exception or None
        The error.
    """

    moves: list[Moves] = field(default_factory=list)
    run: Run | None = None
    error: Exception | None = None

    @property
    def ends(self) -> list[int]:
        """Round in which each request ended, by index; empty if not all of them did."""
        if self.run is None or self.run.status != COMPLETED:
            return []
        ends: list[int] = self.run.completion_rounds.tolist()
        return ends

    @property
    def drained(self) -> float:
        """Round in which the policy stopped waiting for more requests; infinite if it did not."""
        drained = None if self.run is None else self.run.drain_round
        return math.inf if drained is None else drained


def play(case: Case, policy: Policy) -> Outcome:
    """Run a policy on a case. Whatever the policy raises is in the outcome."""
    outcome, decide = Outcome(), policy.decide

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
    """A policy and its runs, each made once.

    Attributes
    ----------
    erratic : bool
        Whether two runs of one case differed. A difference between two cases then proves nothing.
    """

    def __init__(self, spec: PolicySpec) -> None:
        self.spec, self.erratic = spec, False
        self._runs: dict[tuple[str, str, int], Outcome] = {}

    def run(self, case: Case) -> Outcome:
        """Return the outcome of a new object."""
        if case.key not in self._runs:
            self._runs[case.key] = play(case, self.spec.make())
        return self._runs[case.key]

    def pair(self, case: Case, other: Case) -> list[Outcome]:
        """Return two runs to compare; none if one was ended early or the policy is erratic."""
        runs = [] if self.erratic else [self.run(case), self.run(other)]
        return runs if all(run.ends for run in runs) else []
