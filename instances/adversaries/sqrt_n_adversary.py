"""An arrival source that reacts to the policy so that its ratio grows as sqrt(n) ([J25])."""

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
    """Return sqrt(M) / 2 rounded up, computed in integers: the smallest h with 4 h^2 >= M."""
    return math.isqrt(memory_limit - 1) // 2 + 1


class SqrtNAdversary:
    """Adversary: one long request, then M/2 short ones when the policy has almost finished it.

    All prompts have length 1. The long request has output length M - 1 and arrives at time 0. If
    the policy starts it at b, floor(M/2) requests with output length 1 arrive at r = b + M - h,
    where h = ceil(sqrt(M) / 2). In its last h - 1 rounds the long request leaves at most h - 2
    tokens free. In these rounds fewer than M/16 of the short requests fit, and each of the others
    waits h rounds. The optimal total latency is below 3.5 M. So no deterministic policy has a ratio
    to the optimum below sqrt(M)/28 ([J25] Theorem 4.1).

    The paper leaves some cases open. They are decided as follows:

    * sqrt(M)/2 is rounded up, which keeps the theorem's bound for every M >= 4. An odd M gives
      (M - 1)/2 short requests.
    * If the policy evicts the long request before r, its next start counts as b. After r no
      request arrives.
    * If the policy never starts the long request, no other request arrives, and its run ends as
      ``"stalled"``, which is worse than any ratio.

    The theorem is about deterministic policies. Randomised policies can be run too. But arrivals
    then depend on their random choices, and the theorem does not apply.

    Parameters
    ----------
    memory_limit : int
        M >= 4.

    Raises
    ------
    InvalidValueError
        M is below 4. In `observe`: the clock does not count rounds. The adversary must know in
        advance when the long request ends, which is possible in the round model only.
    """

    adaptive = True

    def __init__(self, memory_limit: int) -> None:
        self.memory_limit = as_integer(
            memory_limit, None, "memory_limit", minimum=4, maximum=LARGEST_TOKEN_COUNT
        )
        self.name: str | None = f"sqrt-n-adversary[memory_limit={self.memory_limit}]"
        self.reset()

    def reset(self, rng: np.random.Generator | None = None) -> None:
        """Return to the state before the first arrival; ``rng`` is unused."""
        self._next = [Arrival(0, 1, self.memory_limit - 1, LONG_REQUEST)]
        self._is_over = False

    def next_arrival(self) -> float | None:
        """Return the time of the next arrival, or None if none is known yet.

        It is 0 at first. Once the policy has started the long request, it is r, the arrival time of
        the short requests.
        """
        return self._next[0].time if self._next else None

    def release(self, now: float) -> Sequence[Arrival]:
        """Return the requests that arrive by ``now``: the long one at 0, the short ones at r."""
        if not self._next or self._next[0].time > now:
            return []
        released, self._next = self._next, []
        self._is_over = released[0].id != LONG_REQUEST
        return released

    def observe(self, observation: Observation) -> None:
        """Set r, the arrival time of the short requests, when the policy starts the long request.

        If the policy evicts the long request, r is unset.
        """
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
    """Adaptive adversary: short requests arrive when a long one is almost done ([J25] Theorem 4.1).

    It is an arrival source for `online.simulate`, not an instance. After a run, ``run.instance``
    has the requests that arrived.

    Parameters
    ----------
    memory_limit : int, default 256
        M >= 4.
    """
    return SqrtNAdversary(memory_limit)
