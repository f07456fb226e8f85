"""The routers, each a rule in a few lines; ties go to the lowest index.

So they do in vLLM with one API server, whose search begins at the first engine every time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from online.policy_interface.policy import Setup, VisibleRequest
from online.policy_interface.router import ReplicaView, Router, register_router

WAITING_WEIGHT = 4
"""Weight of a waiting request in vLLM's balancer; a running request counts as 1."""


class _Drawing(Router):
    """Base of routers with a random stream or a count of the requests routed."""

    def reset(self, setup: Setup) -> None:
        """Take the random stream, and set the count of routed requests to 0."""
        self._rng, self._asked = setup.rng, 0


class _Blind(_Drawing):
    """Base of routers that use no state of the replicas."""

    looks = False

    def __init__(self) -> None:
        super().__init__(0.0)


@register_router("round-robin")
class RoundRobin(_Blind):
    """Sends requests to the replicas in turn."""

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the index of the next replica in turn."""
        self._asked += 1
        return (self._asked - 1) % len(replicas)


@register_router("random")
class Random(_Blind):
    """Sends each request to a random replica, all with equal probability."""

    randomized = True

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the index of a random replica."""
        return int(self._rng.random() * len(replicas))


class _Least(Router):
    """Base of routers that send each request to the replica of the least load."""

    @abstractmethod
    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the load of a replica for a request; the router chooses the least load."""

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the index of the first replica with the least load."""
        loads = [self.load(request, one) for one in replicas]
        return loads.index(min(loads))


@register_router("least-requests")
class LeastRequests(_Least):
    """Fewest requests, with waiting ones counted four times: the rule of vLLM's own balancer."""

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return 4 waiting + running, as numbers of requests."""
        return WAITING_WEIGHT * replica.waiting + replica.running


@register_router("shortest-queue")
class ShortestQueue(_Least):
    """Fewest requests, waiting or running."""

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return waiting + running, as numbers of requests."""
        return replica.waiting + replica.running


@register_router("power-of-two")
class PowerOfTwo(_Drawing):
    """The replica with fewer requests of two drawn at random; the first drawn if they are equal."""

    randomized = True

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the index of the drawn replica with fewer requests, waiting or running."""
        count = len(replicas)
        first = int(self._rng.random() * count)
        second = int(self._rng.random() * (count - 1))
        second = min(second + (second >= first), count - 1)
        return min(first, second, key=lambda one: replicas[one].waiting + replicas[one].running)


@register_router("least-tokens")
class LeastTokens(_Least):
    """Fewest KV tokens stored plus prompt tokens waiting.

    The waiting tokens count because they will be stored on the replica too. Without them a replica
    with a long queue not yet admitted would seem empty.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the tokens stored and waiting on a replica."""
        return replica.tokens + replica.waiting_tokens


@register_router("least-work")
class LeastWork(_Least):
    """Fewest predicted tokens unfinished: sum of s + predicted o of unfinished requests.

    The router knows which requests it sent and which finished, but not how far the others are.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the predicted tokens of the replica's unfinished requests."""
        return replica.work
