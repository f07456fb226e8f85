"""The adversary that waits for the policy's move ([J25] Theorem 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from instances.errors import InvalidValueError
from instances.generators.registry import register_generator
from instances.problem.arrival_source import Arrival, Observation
from instances.validation import LARGEST_TOKEN_COUNT, as_integer

LONG_REQUEST = "long"


def half_root(memory_limit: int) -> int:
    """sqrt(M) / 2 rounded up, in exact integers: the least h with 4 h^2 >= M."""
    return math.isqrt(memory_limit - 1) // 2 + 1


class SqrtNAdversary:
    """Adversary: one long request, and M/2 short ones when the policy has almost finished it.

    All prompts have length 1. The long request (o = M - 1) appears at time 0. Once the policy
    starts it, at b, floor(M/2) requests with o = 1 appear at r = b + M - h, where
    h = ceil(sqrt(M) / 2), that is r = floor(b + M - sqrt(M)/2). The long request then holds all
    but h - 2 tokens at most for its last h - 1 rounds, in which fewer than M/16 of the short ones
    find room; each of the others waits h rounds. In hindsight the total latency is below 3.5 M,
    so no deterministic policy is within sqrt(M)/28 of the optimum ([J25] Theorem 4.1).

    Left open by the paper and decided here:

    * sqrt(M)/2 is rounded up, which keeps the theorem's bound for every M >= 4; an odd M gives
      (M - 1)/2 short requests;
    * a policy that evicts the long request before r is answered when it starts it again: b is the
      start that has lasted; after r nothing more comes;
    * a policy that never starts the long request is never sent anything else: its run ends as
      ``"stalled"``, which is worse than any ratio.

    The theorem is about deterministic policies. A randomised one can be played all the same, but
    then the arrivals follow its coin tosses (an adaptive adversary) and the theorem says nothing.

    Parameters
    ----------
    memory_limit : int
        M >= 4.

    Raises
    ------
    InvalidValueError
        M < 4; or, in `observe`, a clock that does not count rounds: the adversary foretells when
        the long request ends, which it can in the round model only.
    """

    adaptive = True

    def __init__(self, memory_limit: int) -> None:
        self.memory_limit = as_integer(
            memory_limit, None, "memory_limit", minimum=4, maximum=LARGEST_TOKEN_COUNT
        )
        self.name: str | None = f"sqrt-n-adversary[memory_limit={self.memory_limit}]"
        self.reset()

    def reset(self, rng: np.random.Generator | None = None) -> None:
        """Begin again; nothing is random."""
        self._next = [Arrival(0, 1, self.memory_limit - 1, LONG_REQUEST)]
        self._is_over = False

    def next_arrival(self) -> float | None:
        """0, then the time of the short requests once the long one has started."""
        return self._next[0].time if self._next else None

    def release(self, now: float) -> Sequence[Arrival]:
        """The long request at 0, the short ones at r."""
        if not self._next or self._next[0].time > now:
            return []
        released, self._next = self._next, []
        self._is_over = released[0].id != LONG_REQUEST
        return released

    def observe(self, observation: Observation) -> None:
        """Watch the long request start, or go back to the queue."""
        if self._is_over:
            return
        begun = observation.round_index
        if observation.time != begun:
            reason = "is not counted in rounds of unit length"
            raise InvalidValueError(self.name, "time", observation.time, reason)
        if LONG_REQUEST in observation.evicted:
            self._next = []
        if LONG_REQUEST in observation.started:
            time = begun + self.memory_limit - half_root(self.memory_limit)
            ids = [f"short-{k}" for k in range(self.memory_limit // 2)]
            self._next = [Arrival(time, 1, 1, one) for one in ids]


@register_generator("sqrt-n-adversary")
def sqrt_n_adversary(rng: np.random.Generator, *, memory_limit: int = 256) -> SqrtNAdversary:
    """Adaptive: floods the policy when its long request is almost done ([J25] Theorem 4.1).

    An arrival source for `online.simulate`, not an instance: ``run.instance`` is what it released.

    Parameters
    ----------
    memory_limit : int, default 256
        M >= 4.
    """
    return SqrtNAdversary(memory_limit)
