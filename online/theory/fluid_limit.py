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

from instances.arrays import FloatArray
from instances.validation import as_choice, as_number

from .interval_ratios import checked_lengths

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
        Lower end of the interval that the policy is given; the last length of ``x`` is its upper.
    batches : float
        n / M, > 0.
    rule : Rule
        Which policy.

    Raises
    ------
    InvalidValueError
        No shares, a negative one, or all 0; ``batches`` not positive; another rule.
    """
    s, ell = checked_lengths(x, prompt_length, lower)
    batches = as_number(batches, None, "batches", above=0)
    as_choice(rule, None, "rule", get_args(Rule))
    return _Fluid(np.asarray(x, dtype=np.float64), s, ell, batches, rule).total_latency()


class _Fluid:
    """``waiting[k, i]`` and ``running[k, a, i]``: mass of bound k, age a and true length i."""

    def __init__(self, x: FloatArray, s: int, ell: int, batches: float, rule: Rule) -> None:
        self._rule, self._prompt, self._lower = rule, s, ell
        self._reserves = rule in ("a-min-reserve", "a-max-peaks")
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
        ages, bounds = lengths[None, :, None], lengths[:, None, None]
        self._finished = ages == lengths[None, None, :]
        self._beyond = (ages >= bounds) & (ages < lengths[None, None, :])
        self._peaks = s + lengths[:, None]
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
                self._admit()
                back = self._evict()
            else:
                back = self._send_back() if self._rule == "a-ell" else self._evict()
                self._admit()
            self.waiting += back
            self.running[:, 1:] = self.running[:, :-1].copy()
            self.running[:, 0] = 0.0
        raise RuntimeError(f"{self._rule}: not everything is served after {MOST_ROUNDS} rounds")

    def _reserved(self, overdue: FloatArray) -> float:
        """Return the peaks of everything that is not overdue."""
        return float(((self.running - overdue).sum(axis=2) * self._peaks).sum())

    def _send_back(self) -> FloatArray:
        """A_l: requests beyond the lower bound wait again, with the upper length as their bound."""
        back = np.zeros_like(self.waiting)
        if self._lower < self._longest:
            gone = self.running[self._lower] * self._beyond[self._lower]
            self.running[self._lower] -= gone
            back[self._longest] = gone.sum(axis=0)
        return back

    def _evict(self) -> FloatArray:
        """Evict until the next round fits, smallest bound first; return what waits again.

        Of a bound that only has to leave in part, the same share of every request leaves. The
        reserving A_min evicts only overdue requests, and those of size z at a rate like
        log(1 + 1 / z).
        """
        back = np.zeros_like(self.waiting)
        group, reserved = self.running, 0.0
        is_overdue = self._rule == "a-min-reserve"
        if is_overdue:
            group = self.running * self._beyond
            reserved = self._reserved(group)
        tokens = group.sum(axis=2) * self._next
        excess = float(tokens.sum()) + reserved - 1
        for bound, held in enumerate(tokens.sum(axis=1)):
            if excess <= TOLERANCE:
                break
            share = np.full(len(tokens), min(1.0, excess / held) if held > 0 else 0.0)
            if is_overdue and held > excess:
                share = self._leaving(tokens[bound], excess)
            excess -= float((tokens[bound] * share).sum())
            gone = group[bound] * share[:, None]
            self.running[bound] -= gone
            for age in np.flatnonzero(gone.any(axis=1)):
                back[max(bound, int(age) + is_overdue)] += gone[age]
        return back

    def _leaving(self, tokens: FloatArray, excess: float) -> FloatArray:
        """Share evicted of each age, 1 - (z / (z + 1))^theta, for the theta that frees enough."""
        rates = np.log1p(1 / np.maximum(self._held, 1))

        def share(theta: float) -> FloatArray:
            found: FloatArray = -np.expm1(-theta * rates)
            return found

        low, high = 0.0, 1.0
        while float((tokens * share(high)).sum()) < excess:
            high *= 2
        for _ in range(60):
            theta = (low + high) / 2
            is_enough = float((tokens * share(theta)).sum()) >= excess
            low, high = (low, theta) if is_enough else (theta, high)
        return share(high)

    def _admit(self) -> None:
        """Start the smallest bounds first, as much as fits in every round until their ends.

        Tokens by round are those of [C25] Equation (3), where an overdue request is taken to finish
        in the next round. If peaks are reserved, each request holds its peak in all rounds, and an
        overdue one the tokens that it holds now.
        """
        used = self._tokens_ahead()
        for bound in np.flatnonzero(self.waiting.any(axis=1)):
            rounds = np.arange(1, int(bound) + 1)
            needed = self._prompt + (np.full_like(rounds, bound) if self._reserves else rounds)
            most = float(((1 - used[rounds]) / needed).min())
            amount = float(self.waiting[bound].sum())
            share = min(1.0, max(0.0, most / amount))
            used[rounds] += share * amount * needed
            self.running[bound, 0] += share * self.waiting[bound]
            self.waiting[bound] *= 1 - share
            if share < 1:
                break

    def _tokens_ahead(self) -> FloatArray:
        if self._reserves:
            overdue = self.running * self._beyond
            held = float((overdue.sum(axis=2) * self._held).sum())
            return np.full(self._longest + 1, self._reserved(overdue) + held)
        ahead = np.zeros(self._longest + 1)
        by_age = self.running.sum(axis=2)
        for bound, age in np.argwhere(by_age > 0):
            rounds = np.arange(1, max(int(bound) - int(age), 1) + 1)
            ahead[rounds] += by_age[bound, age] * (self._prompt + int(age) + rounds)
        return ahead
