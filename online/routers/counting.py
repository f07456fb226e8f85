"""Routers that count requests or tokens of replicas, as serving engines report them.

Ties go to the lowest index, as in vLLM with one API server, whose search begins at the first
engine every time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from online.policy_interface.policy import Setup, VisibleRequest
from online.policy_interface.router import ReplicaView, Router, register_router

WAITING_WEIGHT = 4
"""Running requests that one waiting counts as much as, in vLLM's balancer."""


@register_router("least-requests")
class LeastRequests(Router):
    """Fewest requests, waiting ones counted four times: vLLM's own balancer."""

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the replica of the smallest 4 waiting + running."""
        loads = [WAITING_WEIGHT * one.waiting + one.running for one in replicas]
        return loads.index(min(loads))


@register_router("shortest-queue")
class ShortestQueue(Router):
    """Fewest requests, waiting or running."""

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the replica of the smallest waiting + running."""
        loads = [one.waiting + one.running for one in replicas]
        return loads.index(min(loads))


@register_router("power-of-two")
class PowerOfTwo(Router):
    """The one with fewer requests of two replicas drawn at random; of equal ones the first."""

    randomized = True
    _rng: np.random.Generator

    def reset(self, setup: Setup) -> None:
        """Take the random stream."""
        self._rng = setup.rng

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the better one of two."""
        count = len(replicas)
        first = int(self._rng.random() * count)
        second = int(self._rng.random() * (count - 1))
        second += second >= first
        if second == count:
            return first
        one, other = replicas[first], replicas[second]
        return second if other.waiting + other.running < one.waiting + one.running else first


@register_router("least-tokens")
class LeastTokens(Router):
    """Fewest KV tokens stored, and prompt tokens waiting.

    Tokens stored alone would send everything to a replica whose queue has not been admitted yet:
    what waits is to be stored there too.
    """

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the replica of the fewest tokens."""
        loads = [one.tokens + one.waiting_tokens for one in replicas]
        return loads.index(min(loads))
