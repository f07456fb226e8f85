"""Proofs by prices of a token in each round.

The bound is that of `hindsight.certificates.state_proofs` with the single table rho = m + 1, and M
for its D: at most M tokens are held in round tau + 1. Sums are differences of prefix sums, so large
instances are cheap to check. The latency of a request counts by its weight.

**Branches.** The nodes of a tree are listed parents first: a split [i, t] is followed by the nodes
for schedules in which request i starts by round t, then by those for all others. Every schedule
lies in one leaf. So the least bound of the leaves, each at its own prices and over the starts that
it allows to every request, is a lower bound. A leaf that allows a request no start has no schedule.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from . import limits
from .format import (
    LIMIT,
    CertificateTooLargeError,
    MalformedCertificateError,
    keys_of,
    list_of,
    whole,
    wholes,
)
from .limits import CALL
from .proofs import Proof

ROW = 100
"""Work charged for each request, besides that of its starts."""

BLOCK = 1024
"""Starts tried in the first block; each further block is twice as long."""


class _Case(NamedTuple):
    """A window of starts of one request, and the enclosing case."""

    within: _Case | None
    request: int
    first: int
    last: int | None
    depth: int

    def windows(self) -> dict[int, tuple[int, int | None]]:
        """Return the innermost window of every request that has one."""
        found: dict[int, tuple[int, int | None]] = {}
        case = self
        while case.within is not None:
            found.setdefault(case.request, (case.first, case.last))
            case = case.within
        return found


class MemoryProof(Proof):
    """Proof by prices of a token in rounds 1, 2, ..."""

    keys: ClassVar[tuple[str, ...]] = ("prices",)
    takes_weights: ClassVar[bool] = True

    def bound(self) -> int:
        """See `Proof.bound`."""
        return self._bound(self.part["prices"], "prices", self.scale, {})

    def _bound(
        self, prices: Any, where: str, scale: int, windows: dict[int, tuple[int, int | None]]
    ) -> int:
        """Bound the schedules that keep some requests to given non-empty windows of starts."""
        numerators = [whole(y, where) for y in list_of(prices, where)]
        T = len(numerators)
        if T > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(f"{where}: more than {limits.LARGEST_EPOCH} rounds")
        self.spend(T + ROW * len(self.rows))
        largest = max(s for _, s, _ in self.rows)
        latest = max([T, *(first for first, _ in windows.values())])
        # Prefix sums of y times |s + 1 - t|, and of y tau; t and tau are at most T.
        self._refuse_overflow(sum(numerators) * (largest + 1 + 2 * T), latest, where, scale)
        self.price_sets += 1
        y = np.array(numerators, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * np.arange(T, dtype=np.int64))])
        total = -self.limit * sum(numerators)
        for i, (a, s, o) in enumerate(self.rows):
            unit = scale * self.weights[i]
            first, last = windows.get(i, (a, None))
            stop, length = T if last is None else min(T, last + 1), BLOCK
            # A start costs at least its latency: past the least cost so far, none need be tried.
            free = max(first, T)  # the first start past the prices
            least = LIMIT if last is not None and last < free else unit * (free + o - a)
            while first < stop and unit * (first + o - a) < least:
                self.spend(CALL + length)
                t = np.arange(first, min(first + length, stop), dtype=np.int64)
                end = np.minimum(t + o, T)
                # sum over tau = t .. t + o - 1 of y[tau] (s + 1 + tau - t)
                paid = (s + 1 - t) * (plain[end] - plain[t]) + tilted[end] - tilted[t]
                least = min(least, int((unit * (t + (o - a)) + paid).min()))
                first, length = first + length, 2 * length
            total += least
        return -(-total // scale)


class BranchedMemoryProof(MemoryProof):
    """Proof by a tree of cases on when some requests start, with memory prices in each."""

    keys = ("nodes",)

    def bound(self) -> int:
        """See `Proof.bound`."""
        bounds: list[int] = []
        walk: list[_Case | None] = [_Case(None, 0, 0, None, 0)]
        for number, node in enumerate(list_of(self.part["nodes"], "nodes")):
            where = f"node {number}"
            if not walk:
                raise MalformedCertificateError(f"{where}: the tree has ended")
            case = walk.pop()
            self.spend(CALL + (0 if case is None else case.depth))
            if isinstance(node, list):
                i, t = wholes(node, 2, where)
                if i >= len(self.rows):
                    raise MalformedCertificateError(f"{where}: there is no request {i}")
                walk += [None, None] if case is None else self._halves(case, i, t)
                continue
            keys_of(node, ("scale", "prices"), where)
            scale = whole(node["scale"], where, 1)
            self.leaves += 1
            if case is not None:
                bounds.append(self._bound(node["prices"], where, scale, case.windows()))
        if walk:
            raise MalformedCertificateError("nodes: the tree does not end")
        return min(bounds)

    def _halves(self, case: _Case, i: int, t: int) -> list[_Case | None]:
        """Return the cases of starts after t and up to t; None where there are no such starts."""
        first, last = case.windows().get(i, (self.rows[i][0], None))
        depth = case.depth + 1
        later = _Case(case, i, max(first, t + 1), last, depth)
        earlier = _Case(case, i, first, t if last is None else min(last, t), depth)
        return [
            None if last is not None and t >= last else later,
            None if t < first else earlier,
        ]
