"""Routers that count predicted output lengths; ties go to the lowest index."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from online.policy_interface.policy import VisibleRequest
from online.policy_interface.router import ReplicaView, Router, register_router


@register_router("least-work")
class LeastWork(Router):
    """Fewest predicted tokens unfinished: s + predicted o of all sent there and not finished.

    It knows what it sent and what finished, and nothing of the progress between.
    """

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the replica of the least work."""
        loads = [one.work for one in replicas]
        return loads.index(min(loads))


@register_router("by-price")
class ByPrice(Router):
    """The replica on which the request costs least by the prices of the volume relaxation.

    In that relaxation a machine gives M token-rounds in each round, and serves volumes v_j (token-
    rounds that a request is to hold, by its prediction) in increasing order, which is optimal. One
    more request of volume v waits for all smaller volumes and puts off all larger ones by v / M
    rounds each, so the optimum grows by (v + sum_j min(v, v_j)) / M over the unfinished requests j
    of the replica. This is its price there.
    """

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the replica of the lowest price."""
        volume = request.volume
        prices = []
        for one in replicas:
            volumes = one.volumes
            smaller = bisect_left(volumes, volume)
            prices.append(sum(volumes[:smaller]) + volume * (len(volumes) - smaller))
        return prices.index(min(prices))
