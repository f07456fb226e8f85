"""Routers that look at no replica."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from instances.problem.request import RequestId
from online.policy_interface.policy import Setup, VisibleRequest
from online.policy_interface.router import ReplicaView, Router, register_router


class _Blind(Router):
    looks = False

    def __init__(self, sticky: str | Mapping[RequestId, Hashable] | None = None) -> None:
        super().__init__(0.0, sticky)


@register_router("round-robin")
class RoundRobin(_Blind):
    """Each replica in turn."""

    def reset(self, setup: Setup) -> None:
        """Begin with the first replica."""
        self._next = 0

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the next replica."""
        chosen, self._next = self._next, (self._next + 1) % len(replicas)
        return chosen


@register_router("random")
class Random(_Blind):
    """A replica at random, all equally likely."""

    randomized = True
    _rng: np.random.Generator

    def reset(self, setup: Setup) -> None:
        """Take the random stream."""
        self._rng = setup.rng

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return any replica."""
        return int(self._rng.random() * len(replicas))
