"""The routers, each a rule in a few lines. Of equal replicas the lowest index is chosen.

vLLM with one API server does the same: its search for an engine always begins at the first one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from online.policy_interface.policy import Setup, VisibleRequest
from online.policy_interface.router import ReplicaView, Router, register_router

WAITING_WEIGHT = 4
"""Weight of a waiting request in the load balancer of vLLM. A running request counts as 1."""


class _Drawing(Router):
    """Base class of routers with a random stream and a count of the routed requests."""

    def reset(self, setup: Setup) -> None:
        """Take the random stream, and set the count of routed requests to 0."""
        self._rng, self._asked = setup.rng, 0


class _Blind(_Drawing):
    """Base class of routers that use no state of the replicas."""

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
    """Base class of routers that send each request to the replica with the least load."""

    @abstractmethod
    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the load of a replica for a request; the router chooses the least load."""

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the index of the first replica with the least load."""
        loads = [self.load(request, one) for one in replicas]
        return loads.index(min(loads))


@register_router("least-requests")
class LeastRequests(_Least):
    """Chooses the replica with the fewest requests, where waiting ones count four times.

    This is the rule of the load balancer of vLLM.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return 4 * (number of waiting requests) + (number of running requests)."""
        return WAITING_WEIGHT * replica.waiting + replica.running


@register_router("shortest-queue")
class ShortestQueue(_Least):
    """Chooses the replica with the fewest requests, waiting or running."""

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the number of requests, waiting or running."""
        return replica.waiting + replica.running


@register_router("power-of-two")
class PowerOfTwo(_Drawing):
    """Draws two replicas at random and chooses the one with fewer requests, the first if equal."""

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
    """Chooses the replica with the fewest tokens: stored KV tokens plus waiting prompt tokens.

    The waiting tokens count because they will be stored on the replica too. Without them a replica
    with a long queue and an empty batch would seem empty.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the tokens stored and waiting on a replica."""
        return replica.tokens + replica.waiting_tokens


@register_router("least-work")
class LeastWork(_Least):
    """Chooses the replica whose unfinished requests have the fewest tokens in all.

    The tokens of a request are its prompt tokens and its predicted output tokens. The router knows
    which requests it sent and which of them finished, but not how far the others are.
    """

    def load(self, request: VisibleRequest, replica: ReplicaView) -> int:
        """Return the predicted tokens of the replica's unfinished requests."""
        return replica.work
