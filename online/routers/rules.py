"""The routers, each a rule in a few lines; ties go to the lowest index.

So they do in vLLM with one API server, whose search begins at the first engine every time.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence

from online.policy_interface.policy import Setup, VisibleRequest
from online.policy_interface.router import ReplicaView, Router, register_router

WAITING_WEIGHT = 4
"""Running requests that one waiting counts as much as, in vLLM's balancer."""


class _Drawing(Router):
    """Has a random stream and counts the requests it is asked about."""

    def reset(self, setup: Setup) -> None:
        """Take the random stream, and begin with the first replica."""
        self._rng, self._asked = setup.rng, 0


class _Blind(_Drawing):
    """Looks at no replica."""

    looks = False

    def __init__(self) -> None:
        super().__init__(0.0)


@register_router("round-robin")
class RoundRobin(_Blind):
    """Each replica in turn."""

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the next replica."""
        self._asked += 1
        return (self._asked - 1) % len(replicas)


@register_router("random")
class Random(_Blind):
    """A replica at random, all equally likely."""

    randomized = True

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return any replica."""
        return int(self._rng.random() * len(replicas))


class _Least(Router):
    """The replica of the least load."""

    @abstractmethod
    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return what a request would find on a replica."""

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the replica of the least load."""
        loads = [self.load(request, one) for one in replicas]
        return loads.index(min(loads))


@register_router("least-requests")
class LeastRequests(_Least):
    """Fewest requests, waiting ones counted four times: vLLM's own balancer."""

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return 4 waiting + running."""
        return WAITING_WEIGHT * replica.waiting + replica.running


@register_router("shortest-queue")
class ShortestQueue(_Least):
    """Fewest requests, waiting or running."""

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return waiting + running."""
        return replica.waiting + replica.running


@register_router("power-of-two")
class PowerOfTwo(_Drawing):
    """The one with fewer requests of two replicas drawn at random; of equal ones the first."""

    randomized = True

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the better one of two."""
        count = len(replicas)
        first = int(self._rng.random() * count)
        second = int(self._rng.random() * (count - 1))
        second = min(second + (second >= first), count - 1)
        return min(first, second, key=lambda one: replicas[one].waiting + replicas[one].running)


@register_router("least-tokens")
class LeastTokens(_Least):
    """Fewest KV tokens stored, and prompt tokens waiting.

    Tokens stored alone would send everything to a replica whose queue has not been admitted yet:
    what waits is to be stored there too.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return tokens stored and waiting."""
        return replica.tokens + replica.waiting_tokens


@register_router("least-work")
class LeastWork(_Least):
    """Fewest predicted tokens unfinished: s + predicted o of all sent there and not finished.

    It knows what it sent and what finished, and nothing of the progress between.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the predicted tokens unfinished."""
        return replica.work


@register_router("by-price")
class ByPrice(_Least):
    """The replica on which the request costs least by the prices of the volume relaxation.

    In that relaxation a machine gives M token-rounds in each round, and serves volumes v_j (token-
    rounds that a request is to hold, by its prediction) in increasing order, which is optimal. One
    more request of volume v waits for all smaller volumes and puts off all larger ones by v / M
    rounds each, so the optimum grows by (v + sum_j min(v, v_j)) / M over the unfinished requests j
    of the replica. This is its price there.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return M times the price, less v."""
        volumes, volume = replica.volumes, request.volume
        smaller = bisect_left(volumes, volume)
        return sum(volumes[:smaller]) + volume * (len(volumes) - smaller)
