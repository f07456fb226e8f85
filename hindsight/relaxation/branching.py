"""Bounds beyond the relaxation, by branching on the starts of requests that it spreads out.

A request that the relaxation spreads over many starts must begin by some round or after it. The
ascent of `hindsight.relaxation.price_ascent` prices both cases again, and the weaker case is split
again (`hindsight.bounds.branched_prices`). This pays off if few requests fill the memory: if many
do, each of them is a small part of the gap that the relaxation leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hindsight.bounds.branched_prices import LATEST, BranchedPrices, leaf_bound, requests_from
from hindsight.bounds.memory_prices import round_prices
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.runtime.clock import Clock, StoppedEarlyError
from instances import Instance
from instances.arrays import FloatArray, IntArray

from .price_ascent import PriceAscent, mean_starts

TEMPERATURES = (2.0, 0.6)
"""Temperatures of the ascent in a new leaf, in rounds of the mean weight."""

STEPS = 30
"""Most steps at each temperature."""

CANDIDATES = 2
"""Most requests tried for a split."""

SMEARED = 0.5
"""Least standard deviation of starts, in rounds, at which a request may be split."""

MOST_PRICES = 5_000_000
"""Most prices of all leaves together, as a certificate stores them all; then splitting ends."""

ENOUGH = 1000.0
"""Most latency, in rounds of the mean weight, that a leaf may gain at once.

A leaf without schedules has any bound.
"""


@dataclass(eq=False)
class _Node:
    """A leaf, or a split if it has children."""

    first: IntArray
    last: IntArray
    prices: MemoryPrices
    bound: int
    candidates: list[tuple[int, int]]
    split: tuple[int, int] | None = None
    children: tuple[_Node, ...] = ()


class BranchedRelaxation:
    """Branch and bound for the lower bound alone, starting from memory prices of the relaxation.

    Deterministic except for the point at which the clock stops it.

    Parameters
    ----------
    instance : Instance
        The problem.
    memory_prices : MemoryPrices
        Good prices of memory, as the relaxation returns them.
    clock : Clock
        Clock that stops the branching.

    Attributes
    ----------
    splits : int
        Number of splits so far.
    """

    def __init__(self, instance: Instance, memory_prices: MemoryPrices, clock: Clock) -> None:
        self._instance, self._clock = instance, clock
        first = instance.arrival_times
        last = np.full(len(instance), LATEST)
        bound = leaf_bound(instance, memory_prices, first, last)
        self._root = _Node(first, last, memory_prices, bound, [])
        self._rounds = memory_prices.horizon
        self._leaves = max(2, MOST_PRICES // max(1, self._rounds))
        self._open: list[tuple[int, int, _Node]] = []
        self.splits = 0

    @property
    def certified_bound(self) -> int:
        """Return the least of the leaves' bounds, exact."""
        return self._open[0][0] if self._open else self._root.bound

    def go_on(self, told: Callable[[BranchedRelaxation], None] | None = None) -> None:
        """Split until the clock stops it, or no price and no request with spread starts is left.

        ``told`` is called after every split.
        """
        if not self._root.prices.horizon:
            return
        try:
            if not self._open:
                root = self._root
                self._root = self._priced(root, root.first, root.last)
                heapq.heappush(self._open, (self._root.bound, 0, self._root))
            while len(self._open) < self._leaves and self._open[0][2].candidates:
                if self._clock.must_stop():
                    return
                self._split(self._open[0][2])
                self.splits += 1
                if told is not None:
                    told(self)
        except StoppedEarlyError:
            return

    def proof(self) -> BranchedPrices:
        """Return the prices that prove `certified_bound`."""
        nodes: list[tuple[int, int] | MemoryPrices] = []
        walk = [self._root]
        while walk:
            node = walk.pop()
            nodes.append(node.prices if node.split is None else node.split)
            walk += reversed(node.children)
        return BranchedPrices(tuple(nodes))

    def _split(self, node: _Node) -> None:
        """Split the weakest leaf where that helps most."""
        found: list[tuple[list[int], tuple[int, int], tuple[_Node, _Node]]] = []
        for i, t in node.candidates:
            earlier, later = node.last.copy(), node.first.copy()
            earlier[i], later[i] = t, t + 1
            children = (
                self._priced(node, node.first, earlier),
                self._priced(node, later, node.last),
            )
            found.append((sorted(child.bound for child in children), (i, t), children))
        _, node.split, node.children = max(found, key=lambda one: one[0])
        heapq.heappop(self._open)
        for number, child in enumerate(node.children):
            heapq.heappush(self._open, (child.bound, 2 * self.splits + number + 1, child))

    def _priced(self, parent: _Node, first: IntArray, last: IntArray) -> _Node:
        """Return a leaf with the best prices found, starting from those of its parent."""
        instance, must_stop = self._instance, self._clock.must_stop
        unit = float(instance.weights.mean())
        # Rounding drops trailing zero prices; each leaf may raise these prices again.
        T, known = self._rounds, parent.prices.as_floats()
        prices = np.zeros(T)
        prices[: len(known)] = known
        best: list[tuple[float, FloatArray]] = []
        has_enough = False

        def hear(ascent: PriceAscent) -> None:
            nonlocal has_enough
            value, tried = ascent.now.value, ascent.round_prices().copy()
            if not best:
                best.append((value, tried))
            elif value > best[0][0]:
                # L is concave: a part of the way gains at least that part.
                start, begun = best[0]
                part = min(1.0, (enough - start) / (value - start))
                best[0] = start + part * (value - start), begun + part * (tried - begun)
                if part < 1:
                    has_enough = True
                    raise StoppedEarlyError

        ascent = PriceAscent(
            requests_from(instance, first),
            instance.memory_limit,
            prices,
            TEMPERATURES[0] * unit,
            final=np.maximum(np.minimum(last, T), first),
            stepped=hear,
            must_stop=must_stop,
        )
        hear(ascent)
        enough = best[0][0] + ENOUGH * unit
        for temperature in (unit * rounds for rounds in TEMPERATURES):
            if temperature != ascent.temperature:
                ascent.cool(temperature / ascent.temperature)
            if not ascent.climb(STEPS, 1e-8):
                if has_enough:
                    break
                raise StoppedEarlyError
        rounded = round_prices(best[0][1], instance)
        bound = leaf_bound(instance, rounded, first, last, must_stop)
        if bound <= parent.bound:
            rounded, bound = (
                parent.prices,
                leaf_bound(instance, parent.prices, first, last, must_stop),
            )
        return _Node(first, last, rounded, bound, self._candidates(ascent, first, last))

    def _candidates(
        self, ascent: PriceAscent, first: IntArray, last: IntArray
    ) -> list[tuple[int, int]]:
        """Return the requests spread over the most starts, and their mean starts."""
        listed = mean_starts([ascent.now], 0, len(first))
        k, mass = listed.class_of, listed.masses
        means = np.bincount(k, listed.starts * mass, len(first))
        spread = np.bincount(k, mass * (listed.starts - means[k]) ** 2, len(first))
        splits = np.floor(means).astype(np.int64)
        may = (spread > SMEARED**2) & (splits >= first) & (splits < last)
        largest = self._instance.prompt_lengths + self._instance.output_lengths
        ranked = np.argsort(-spread * largest, kind="stable")
        return [(int(i), int(splits[i])) for i in ranked[may[ranked]][:CANDIDATES]]
