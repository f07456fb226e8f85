"""Repair of fractional solutions that slightly exceed the memory limit.

In a round that holds more than M, starts whose lives touch it lose just enough of their weight. The
largest requests, s + o, lose theirs first, since a little of them frees most. The removed pieces
are put back, the last first, as near to their old starts as the others leave room; earlier rounds
are tried first, as they cost less. There is always room after the last round in use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.bounds.cheapest_starts import RequestClasses
from hindsight.outcomes.results import Fractions, Weights
from hindsight.runtime.clock import timed_slices
from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray

SMALLEST = 0.1
"""Most parts of a piece that are placed separately; the last of them takes the rest."""


class ListedStarts(NamedTuple):
    """A fractional solution as a list of starts.

    Attributes
    ----------
    classes : RequestClasses
        Classes of the requests.
    class_of : int64 array
        Class of each entry, increasing, shape (entries,).
    starts : int64 array
        Starts, increasing for each class.
    masses : float64 array
        Requests of the class that begin there, as a fraction; those of a class sum to its count.
    """

    classes: RequestClasses
    class_of: IntArray
    starts: IntArray
    masses: FloatArray

    @property
    def offsets(self) -> IntArray:
        """Return where the entries of each class begin, and the last end, shape (classes + 1,)."""
        classes = np.arange(len(self.classes.counts) + 1)
        return np.searchsorted(self.class_of, classes)

    def usage(self, must_stop: Callable[[], bool]) -> FloatArray:
        """Return memory, entry r for round r, up to the last round in use."""
        _, s, o = self._lengths()
        last = int((self.starts + o).max())
        entering, running = np.zeros((2, last + 2))
        for part in timed_slices(len(self.starts), must_stop):
            t, mass, si, oi = self.starts[part], self.masses[part], s[part], o[part]
            np.add.at(entering, t + 1, si * mass)
            np.add.at(running, t + 1, mass)
            np.subtract.at(entering, t + 1 + oi, (si + oi) * mass)
            np.subtract.at(running, t + 1 + oi, mass)
        return np.cumsum(entering + np.cumsum(running))[: last + 1]

    def cost(self) -> float:
        """Return the total latency."""
        a, _, o = self._lengths()
        weights = self.classes.weights[self.class_of]
        return float((self.masses * weights) @ (self.starts + o - a))

    def fractions(self) -> Fractions:
        """Return the weights of a request of each class."""
        counts, offsets = self.classes.counts, self.offsets
        means = np.bincount(self.class_of, self.starts * self.masses) / counts
        latest = self.starts[offsets[1:] - 1]

        def weights(k: int) -> Weights:
            part = slice(offsets[k], offsets[k + 1])
            return self.starts[part], self.masses[part] / counts[k]

        class_of = self.classes.class_of
        return Fractions(weights, class_of, means, latest, np.zeros_like(class_of))

    def _lengths(self) -> tuple[IntArray, IntArray, IntArray]:
        c, k = self.classes, self.class_of
        return c.arrival_times[k], c.prompt_lengths[k], c.output_lengths[k]


def within_memory(
    listed: ListedStarts,
    memory_limit: int,
    final: IntArray | None,
    must_stop: Callable[[], bool],
) -> ListedStarts | None:
    """Find a fractional solution near ``listed`` within the memory limit.

    Parameters
    ----------
    listed : ListedStarts
        Any fractional solution.
    memory_limit : int
        M, at least s + o of every request.
    final : int64 array or None
        Last allowed start of each class; None allows all.
    must_stop : Callable[[], bool]
        Polled; returning True stops the repair.

    Returns
    -------
    ListedStarts or None
        The repaired solution, or None if there is no room before the last starts.

    Raises
    ------
    StoppedEarlyError
        ``must_stop`` returned True.
    """
    classes = listed.classes
    limit = float(memory_limit)
    usage = listed.usage(must_stop)
    over = np.cumsum(usage > limit, dtype=np.int64)
    masses, offsets = listed.masses.copy(), listed.offsets
    order = np.argsort(-(classes.prompt_lengths + classes.output_lengths), kind="stable")
    for part in timed_slices(len(order), must_stop):
        _cut(classes, order[part], limit, over, offsets, listed.starts, masses, usage)
    lost = np.flatnonzero(masses < listed.masses)
    lost = lost[np.argsort(-listed.starts[lost], kind="stable")]
    taken = (listed.masses - masses)[lost]
    kept = masses > 0
    found = [(listed.class_of[kept], listed.starts[kept], masses[kept])]
    for part in timed_slices(len(lost), must_stop):
        pieces = lost[part]
        usage, placed, of_class, starts, masses = _put_back(
            classes,
            listed.class_of[pieces],
            listed.starts[pieces],
            taken[part],
            limit,
            final if final is not None else np.zeros(0, np.int64),
            usage,
        )
        if not placed:
            return None
        found.append((of_class, starts, masses))
    class_of, starts, masses = (np.concatenate(column) for column in zip(*found, strict=True))
    span = int(starts.max()) + 1
    keys, where = np.unique(class_of * span + starts, return_inverse=True)
    summed = np.bincount(where, masses).astype(np.float64)
    return ListedStarts(classes, keys // span, keys % span, summed)


@njit
def _cut(
    classes: RequestClasses,
    order: IntArray,
    limit: float,
    over: IntArray,
    offsets: IntArray,
    starts: IntArray,
    masses: FloatArray,
    usage: FloatArray,
) -> None:
    """Remove from ``masses`` what exceeds the limit, class by class in the given order."""
    _, s, o, _, _, _ = classes
    for i in order:
        si, oi = s[i], o[i]
        for j in range(offsets[i], offsets[i + 1]):
            t = starts[j]
            if over[t + oi] == over[t]:
                continue
            most = 0.0
            for age in range(1, oi + 1):
                most = max(most, (usage[t + age] - limit) / (si + age))
            most = min(most, masses[j])
            if most > 0:
                masses[j] -= most
                for age in range(1, oi + 1):
                    usage[t + age] -= most * (si + age)


@partial(njit, makes_arrays=True)
def _put_back(
    classes: RequestClasses,
    class_of: IntArray,
    begins: IntArray,
    pieces: FloatArray,
    limit: float,
    final: IntArray,
    usage: FloatArray,
) -> tuple[FloatArray, bool, IntArray, IntArray, FloatArray]:
    """Place ``pieces``, each as near as possible to its old start.

    Returns
    -------
    tuple[float64 array, bool, int64 array, int64 array, float64 array]
        Usage with the pieces; whether there was room; class, start and mass of the placed parts.
    """
    a, s, o, _, _, _ = classes
    classes_found = np.empty(2 * len(pieces) + 16, np.int64)
    starts_found, masses_found = np.empty_like(classes_found), np.empty(len(classes_found))
    filled = 0
    for p in range(len(pieces)):
        i, left = class_of[p], pieces[p]
        si, oi = s[i], o[i]
        least = SMALLEST * min(left, limit / (si + oi))
        t, backwards = begins[p], True
        while left > 0:
            if backwards and t < max(a[i], begins[p] - oi):
                t, backwards = begins[p] + 1, False
            if len(final) and t > final[i]:
                return usage, False, classes_found[:0], starts_found[:0], masses_found[:0]
            if t + oi >= len(usage):
                usage = np.append(usage, np.zeros(max(oi, len(usage) // 8) + 1))
            wanted = min(left, least)
            room, blocked = left, 0
            for k in range(1, oi + 1):
                # The nearest blocked round in the direction of the search moves it furthest.
                age = k if backwards else oi + 1 - k
                free = limit - usage[t + age]
                if free < wanted * (si + age):
                    blocked = age
                    break
                room = min(room, free / (si + age))
            if blocked:
                if backwards:
                    t += blocked - oi - 1
                else:
                    free = max(0.0, limit - usage[t + blocked])
                    # Requests that start later hold less in that round.
                    age = min(max(int(free / wanted) - si, 0), blocked - 1)
                    t += blocked - age
                continue
            for age in range(1, oi + 1):
                usage[t + age] += room * (si + age)
            if filled == len(starts_found):
                classes_found = np.append(classes_found, np.empty_like(classes_found))
                starts_found = np.append(starts_found, np.empty_like(starts_found))
                masses_found = np.append(masses_found, np.empty_like(masses_found))
            classes_found[filled], starts_found[filled], masses_found[filled] = i, t, room
            filled += 1
            left = 0.0 if room == left else left - room
            t += -1 if backwards else 1
    return (
        usage,
        True,
        classes_found[:filled].copy(),
        starts_found[:filled].copy(),
        masses_found[:filled].copy(),
    )
