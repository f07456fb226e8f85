"""A run of a policy with everything it decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from instances import ServiceLevel
from online.policy_interface.policy import (
    Decision,
    KnowledgeError,
    Policy,
    PolicyError,
    Setup,
    State,
    VisibleRequest,
)
from online.simulation.simulator import simulate

from .cases import Case

ROUNDS_TO_END = 10
"""Times the rounds that serving one request after the other takes, after which a run has failed."""

LEVEL = ServiceLevel(latency=30, time_per_token=4)
"""Told to policies that need a service level: in the drawn cases some requests can keep it."""

Moves = tuple[int, tuple[Any, ...]]
"""A round, and what was decided about it."""


@dataclass
class Outcome:
    """Outcome of a run.

    Attributes
    ----------
    moves : list[Moves]
        Every decision.
    completed : dict[int, int]
        Round in which requests ended, by index.
    seconds : list[float]
        Of every decision.
    status : str
        As `Run.status`; ``"failed"`` where an error ended it.
    total_latency : int or None
        Of a run that served every request.
    error : Exception or None
        What ended it.
    told_end : float
        Round in which it was told that nothing more will come; infinite where it was not.
    """

    moves: list[Moves] = field(default_factory=list)
    completed: dict[int, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    status: str = "failed"
    total_latency: int | None = None
    error: Exception | None = None
    told_end: float = math.inf

    @property
    def broke_a_rule(self) -> bool:
        """Tell whether the simulator refused a decision."""
        return isinstance(self.error, PolicyError)

    @property
    def needs_lengths(self) -> bool:
        """Tell whether it asked for lengths that it is not told."""
        return isinstance(self.error, KnowledgeError)

    def until(self, round_index: float) -> list[Moves]:
        """The decisions before a round is run."""
        return [moves for moves in self.moves if moves[0] < round_index]


def play(case: Case, policy: Policy) -> Outcome:
    """Run it. Whatever it raises is in the outcome."""
    outcome = Outcome()
    attributes = {name: getattr(policy, name) for name in _SEEN_BY_THE_SIMULATOR}
    watched = type("Watched", (_Watched,), attributes)(policy, outcome)
    requests = case.instance.requests
    in_turn = sum(one.prompt_length + one.output_length for one in requests)
    rounds = requests[-1].arrival_time + ROUNDS_TO_END * in_turn
    try:
        run = simulate(
            case.instance,
            watched,
            seed=case.seed,
            predictions=case.predictions,
            max_rounds=rounds,
            level=LEVEL if policy.reads_deadlines else None,
        )
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        outcome.error = error
        return outcome
    outcome.status = run.status
    if run.status == "completed":
        outcome.total_latency = int(run.total_latency)
    return outcome


_SEEN_BY_THE_SIMULATOR = ("name", "randomized", "pauses", "counts_memory")


class _Watched(Policy):
    """Another policy, whose decisions are written down."""

    def __init__(self, policy: Policy, outcome: Outcome) -> None:
        from hindsight.runtime.clock import Clock

        self._policy = policy
        self._outcome = outcome
        self._seconds: Callable[[], float] = Clock().seconds

    def reset(self, setup: Setup) -> None:
        """Begin a run."""
        self._policy.should_stop = self.should_stop
        self._policy.reset(setup)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Pass on."""
        self._policy.arrive(requests, state)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Pass on."""
        for request in requests:
            self._outcome.completed[request.index] = state.round_index
        self._policy.complete(requests, state)

    def decide(self, state: State) -> Decision:
        """Pass on, and write down."""
        began = self._seconds()
        decision = self._policy.decide(state)
        self._outcome.seconds.append(self._seconds() - began)
        if isinstance(decision, Decision):
            moves = (
                tuple(decision.start),
                tuple(decision.evict),
                tuple(decision.preempt),
                tuple(sorted(decision.hold)),
                tuple(sorted(decision.prefill.items())),
            )
            if any(moves):
                self._outcome.moves.append((state.round_index, moves))
        return decision

    def drain(self, state: State) -> bool:
        """Pass on."""
        self._outcome.told_end = min(self._outcome.told_end, state.round_index)
        return self._policy.drain(state)

    def memory_of_past(self) -> Any:
        """Pass on."""
        return self._policy.memory_of_past()
