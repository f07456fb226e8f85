"""Proofs by state prices and by graphs in which no path is left under them.

The proof has state prices as in `hindsight.certificates.state_proofs`, and stages after which
`hindsight.certificates.path_replay` leaves no path with a total latency of at most ``limit``: the
lower bound is ``limit`` + 1. A stage gives start prices and the requests by which nodes are
distinguished from then on. Wrong start prices, requests or limits leave paths; they cannot make the
check accept a false bound.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from . import limits
from .format import (
    LIMIT,
    CertificateTooLargeError,
    MalformedCertificateError,
    keys_of,
    list_of,
    shown,
    whole,
)
from .path_replay import PathReplay, Stage
from .proofs import SearchFailedError
from .state_proofs import StateProof

MOST_STAGES = 10_000
"""Most stages of a proof."""


class PathProof(StateProof):
    """Proof by state prices, a limit and stages that leave no path within the limit."""

    sees_replicas = False

    keys = ("states", "prices", "limit", "stages")

    @cached_property
    def most_work(self) -> int:
        """Return the share of the work limit that a proof of this size may use."""
        return limits.part_of(limits.LARGEST_WORK, self.size)

    def bound(self) -> int:
        """Return one more than the limit within which no path is left."""
        limit = whole(self.part["limit"], "limit")
        stages = self._stages()
        self.read_prices(of_each_start=True)
        if self._excludes_schedule(limit):
            raise SearchFailedError(f"stages: they leave paths within {limit}")
        replay = PathReplay(self, limit, self.size)
        if replay.closed_by(stages) is None:
            raise SearchFailedError(f"stages: they leave paths within {limit}")
        self.leaves = replay.nodes
        return limit + 1

    @cached_property
    def size(self) -> int:
        """Count the numbers in the proof and its instance."""
        lists = [*list_of(self.part["prices"], "prices")]
        for stage in list_of(self.part["stages"], "stages"):
            lists += stage.values() if isinstance(stage, dict) else ()
        return 3 * len(self.rows) + sum(len(one) for one in lists if isinstance(one, list))

    def _stages(self) -> list[Stage]:
        listed = list_of(self.part["stages"], "stages")
        if len(listed) > MOST_STAGES:
            raise CertificateTooLargeError("stages: too many")
        followed: set[int] = set()
        tracked: set[int] = set()
        stages = []
        for position, part in enumerate(listed):
            where = f"stage {position}"
            keys_of(part, ("start_prices", "followed", "tracked"), where)
            above = np.zeros(len(self.rows), dtype=np.int64)
            prices = list_of(part["start_prices"], where)
            if len(prices) != len(followed):
                raise MalformedCertificateError(
                    f"{where}: {len(prices)} start prices of {len(followed)} followed requests"
                )
            for i, price in zip(sorted(followed), prices, strict=True):
                above[i] = whole(price, where, -LIMIT)
            new = self._requests(part["followed"], followed, where)
            followed |= set(new)
            more = self._requests(part["tracked"], tracked, where)
            tracked |= set(more)
            if not tracked <= followed:
                raise MalformedCertificateError(f"{where}: tracks a request that is not followed")
            stages.append(Stage(above, new, more))
        return stages

    def _requests(self, part: Any, before: set[int], where: str) -> list[int]:
        """Read requests that no earlier stage has named."""
        new = [whole(i, where) for i in list_of(part, where)]
        for i in new:
            if i >= len(self.rows):
                raise MalformedCertificateError(f"{where}: there is no request {shown(i)}")
        if len(set(new)) < len(new) or before & set(new):
            raise MalformedCertificateError(f"{where}: names a request twice")
        return sorted(new)
