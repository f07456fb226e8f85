"""The policies for interval predictions as M grows with n / M fixed: a fluid, not a simulation.

Memory is 1, requests are a divisible mass, and of everything drawn at random the mean happens.
Nothing here is shared with the policies or the simulator, so agreement is evidence for both; and
as there is no noise and no rounding of M, what is left of the distance to a closed form of [C25]
as n / M grows is a property of the closed form. All requests are there at the beginning and have
equal prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray
from instances.validation import as_integer, as_number

from .interval_ratios import check_shares

Rule = Literal["h-sf", "a-min", "a-min-reserve", "a-ell", "a-max", "a-max-peaks"]
"""Registered names; ``a-min-reserve`` is ``a-min(overdue="reserve")``, ``a-max-peaks`` is
``a-max(fit="peaks")``."""


LEFT_OVER = 1e-9
"""Share of the requests that may be unserved at the end: round-off keeps it from being none."""

TOLERANCE = 1e-13
"""Memory above 1 that is round-off."""

MOST_ROUNDS = 1_000_000


def fluid_latency(
    x: Sequence[float], prompt_length: int, lower: int, batches: float, rule: Rule
) -> float:
    """Return the limit of total latency / M as M grows, with n = ``batches`` * M requests.

    Parameters
    ----------
    x : Sequence[float]
        X[j] is the share of output length ``lower + j``, or any multiple of it.
    prompt_length : int
        s of every request, >= 0.
    lower : int
        Lower end of the interval told to the policy; the last length of ``x`` is its upper.
    batches : float
        n / M, > 0.
    rule : Rule
        Which policy.

    Raises
    ------
    InvalidValueError
        No shares, a negative one, or all 0; ``batches`` not positive; another rule.
    """
    s = as_integer(prompt_length, None, "prompt_length", minimum=0)
    ell = as_integer(lower, None, "lower", minimum=1)
    check_shares(x)
    batches = as_number(batches, None, "batches", above=0)
    if rule not in get_args(Rule):
        raise InvalidValueError(None, "rule", rule, f"is none of {', '.join(get_args(Rule))}")
    return _Fluid(np.asarray(x, dtype=np.float64), s, ell, batches, rule).total_latency()


class _Fluid:
    """``waiting[k, i]`` and ``running[k, a, i]``: mass of bound k, age a and true length i."""

    def __init__(self, x: FloatArray, s: int, ell: int, batches: float, rule: Rule) -> None:
        self._rule, self._prompt, self._lower = rule, s, ell
        self._longest = top = ell + len(x) - 1
        self._mass = batches
        lengths = np.arange(top + 1)
        amounts = np.zeros(top + 1)
        amounts[ell:] = x / x.sum() * batches
        self.waiting = np.zeros((top + 1, top + 1))
        if rule == "h-sf":
            self.waiting[lengths, lengths] = amounts
        else:
            self.waiting[top if rule.startswith("a-max") else ell] = amounts
        self.running = np.zeros((top + 1, top + 1, top + 1))
        self._bounds = lengths[:, None, None]
        self._ages = lengths[None, :, None]
        self._finished = self._ages == lengths[None, None, :]
        self._beyond = (self._ages >= self._bounds) & (self._ages < lengths[None, None, :])
        # Tokens held by a request of each age, and in the round after.
        self._held = s + lengths
        self._next = s + lengths + 1.0

    def total_latency(self) -> float:
        """Run until everything is served."""
        total, left = 0.0, self._mass
        for now in range(MOST_ROUNDS):
            done = self.running * self._finished
            served = float(done.sum())
            total += served * now
            left -= served
            self.running -= done
            if left <= LEFT_OVER * self._mass:
                return total
            if self._rule == "a-min-reserve":
                self._admit_into_reservations()
                back = self._evict_overdue()
            else:
                back = self._send_back() if self._rule == "a-ell" else self._evict()
                if self._rule == "a-max-peaks":
                    self._admit_into_reservations()
                else:
                    self._admit_looking_ahead()
            self.waiting += back
            self.running[:, 1:] = self.running[:, :-1].copy()
            self.running[:, 0] = 0.0
        raise RuntimeError(f"{self._rule}: not everything is served after {MOST_ROUNDS} rounds")

    def _send_back(self) -> FloatArray:
        """A_l: whoever outlived the lower bound waits again, known to have the upper length."""
        back = np.zeros_like(self.waiting)
        if self._lower < self._longest:
            gone = self.running[self._lower] * self._beyond[self._lower]
            self.running[self._lower] -= gone
            back[self._longest] = gone.sum(axis=0)
        return back

    def _evict(self) -> FloatArray:
        """Smallest bound first, the same share of every request with that bound."""
        back = np.zeros_like(self.waiting)
        excess = float((self.running.sum(axis=2) * self._next).sum()) - 1
        for bound in range(self._longest + 1):
            if excess <= TOLERANCE:
                break
            held = float((self.running[bound].sum(axis=1) * self._next).sum())
            if held > 0:
                share = min(1.0, excess / held)
                excess -= share * held
                self._take(bound, share * self.running[bound], back, learnt=0)
        return back

    def _evict_overdue(self) -> FloatArray:
        """Smallest bound first; a request of size z leaves at a rate like log(1 + 1 / z)."""
        back = np.zeros_like(self.waiting)
        overdue = self.running * self._beyond
        peaks = self._prompt + self._bounds[:, :, 0]
        reserved = ((self.running - overdue).sum(axis=2) * peaks).sum()
        excess = float((overdue.sum(axis=2) * self._next).sum() + reserved) - 1
        for bound in range(self._longest + 1):
            if excess <= TOLERANCE:
                break
            group = overdue[bound]
            held = float((group.sum(axis=1) * self._next).sum())
            if held <= 0:
                continue
            gone = group if held <= excess else group * self._leaving(group, excess)[:, None]
            excess -= float((gone.sum(axis=1) * self._next).sum())
            self._take(bound, gone, back, learnt=1)
        return back

    def _leaving(self, group: FloatArray, excess: float) -> FloatArray:
        """Share evicted of each age, 1 - (z / (z + 1))^theta, for the theta that frees enough."""
        rates = np.log1p(1 / np.maximum(self._held, 1))
        tokens = group.sum(axis=1) * self._next
        low, high = 0.0, 1.0
        while float((tokens * -np.expm1(-high * rates)).sum()) < excess:
            high *= 2
        for _ in range(60):
            theta = (low + high) / 2
            if float((tokens * -np.expm1(-theta * rates)).sum()) < excess:
                low = theta
            else:
                high = theta
        share: FloatArray = -np.expm1(-high * rates)
        return share

    def _take(self, bound: int, gone: FloatArray, back: FloatArray, learnt: int) -> None:
        self.running[bound] -= gone
        for age in np.flatnonzero(gone.any(axis=1)):
            back[max(bound, int(age) + learnt)] += gone[age]

    def _admit_into_reservations(self) -> None:
        """Everything holds its peak from start to end, the overdue what they hold now."""
        peaks = self._prompt + self._bounds[:, :, 0]
        overdue = (self.running * self._beyond).sum(axis=2)
        reserved = ((self.running.sum(axis=2) - overdue) * peaks).sum()
        free = 1 - float(reserved + (overdue * self._held).sum())
        for bound in np.flatnonzero(self.waiting.any(axis=1)):
            amount = float(self.waiting[bound].sum()) * (self._prompt + int(bound))
            share = min(1.0, max(0.0, free / amount))
            free -= share * amount
            self._start(int(bound), share)
            if share < 1:
                break

    def _admit_looking_ahead(self) -> None:
        """[C25] Equation (3), whoever is past the bound being taken to finish in the next round."""
        ahead = np.zeros(self._longest + 1)
        by_age = self.running.sum(axis=2)
        for bound, age in np.argwhere(by_age > 0):
            rounds = np.arange(1, max(int(bound) - int(age), 1) + 1)
            ahead[rounds] += by_age[bound, age] * (self._prompt + int(age) + rounds)
        for bound in np.flatnonzero(self.waiting.any(axis=1)):
            rounds = np.arange(1, int(bound) + 1)
            most = float(((1 - ahead[rounds]) / (self._prompt + rounds)).min())
            amount = float(self.waiting[bound].sum())
            share = min(1.0, max(0.0, most / amount))
            ahead[rounds] += share * amount * (self._prompt + rounds)
            self._start(int(bound), share)
            if share < 1:
                break

    def _start(self, bound: int, share: float) -> None:
        self.running[bound, 0] += share * self.waiting[bound]
        self.waiting[bound] *= 1 - share
