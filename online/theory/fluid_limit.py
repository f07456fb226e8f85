"""Fluid limit of the policies for interval predictions: n requests, memory M, both growing.

The ratio n / M is fixed. In the limit, memory has size 1, requests are a divisible mass, and random
choices are replaced by their means. All requests arrive at the beginning and have equal prompts.

This module shares no code with the policies or the simulator. So if its results agree with theirs,
both are likely right. The limit has no noise and no rounding of M. If it differs from a formula of
[C25], and the difference remains as n / M grows, then the formula is not exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from instances.arrays import FloatArray
from instances.validation import as_choice, as_number

from .interval_ratios import checked_lengths

Rule = Literal["h-sf", "a-min", "a-min-reserve", "a-ell", "a-max", "a-max-peaks"]
"""Registered names of the policies that `fluid_latency` computes, except that ``a-min-reserve``
stands for ``a-min(overdue="reserve")``, and ``a-max-peaks`` for ``a-max(fit="peaks")``."""


LEFT_OVER = 1e-9
"""Share of unserved requests at which `fluid_latency` stops. Round-off keeps the share above 0."""

TOLERANCE = 1e-13
"""Excess of memory use over M, in units of M, that counts as round-off and evicts no request."""

MOST_ROUNDS = 1_000_000


def fluid_latency(
    x: Sequence[float], prompt_length: int, lower: int, batches: float, rule: Rule
) -> float:
    """Return the limit of total latency (rounds) / M as M grows, for n = ``batches`` * M requests.

    All requests arrive in round 0 and have equal prompts.

    Parameters
    ----------
    x : Sequence[float]
        X[j] is the share of requests with output length ``lower + j``. The sum need not be 1.
    prompt_length : int
        Prompt length s of every request, >= 0.
    lower : int
        Least output length, >= 1. All policies except ``h-sf`` know only that output lengths are in
        the interval from ``lower`` to ``lower + len(x) - 1``.
    batches : float
        Number of requests divided by M, > 0.
    rule : Rule
        Name of the policy.

    Raises
    ------
    InvalidValueError
        No shares, a negative share, or all 0; ``batches`` not positive; an unknown policy.
    """
    s, ell = checked_lengths(x, prompt_length, lower)
    batches = as_number(batches, None, "batches", above=0)
    as_choice(rule, None, "rule", get_args(Rule))
    return _Fluid(np.asarray(x, dtype=np.float64), s, ell, batches, rule).total_latency()


class _Fluid:
    """Simulation of a policy on requests that can be divided. Numbers are in units of M requests.

    ``waiting[k, i]`` is the number of waiting requests with assumed output length k and true output
    length i. ``running[k, a, i]`` is the number of running requests with these lengths that have
    generated a tokens. The policy sees k, its assumption, and not i. Memory is in units of M.
    """

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
        # Entry a: tokens that a request holds after a generated tokens, and in the next round.
        self._held = s + lengths
        self._next = s + lengths + 1.0

    def total_latency(self) -> float:
        """Run rounds until all requests are served. Return (total latency in rounds) / M."""
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
        """Return the memory, in units of M, reserved for running requests that are not overdue.

        Each reserves s + k tokens: its prompt length s and its assumed output length k. A request
        is overdue if it has generated k tokens and is not finished. ``overdue`` has the numbers of
        overdue requests, in the shape of ``running``.
        """
        return float(((self.running - overdue).sum(axis=2) * self._peaks).sum())

    def _send_back(self) -> FloatArray:
        """Evict unfinished requests that have generated ``lower`` tokens, as policy A_l does.

        They wait again, and their assumed output length is now the upper end of the interval.
        Return the numbers of evicted requests, in the shape of ``waiting``.
        """
        back = np.zeros_like(self.waiting)
        if self._lower < self._longest:
            gone = self.running[self._lower] * self._beyond[self._lower]
            self.running[self._lower] -= gone
            back[self._longest] = gone.sum(axis=0)
        return back

    def _evict(self) -> FloatArray:
        """Evict requests until the next round fits into memory.

        Requests with the smallest assumed output length are evicted first. If only a part of the
        requests of one assumed length must be evicted, it is the same share of requests with few
        and with many tokens. ``a-min-reserve`` evicts only overdue requests: those that have
        generated their assumed length and are not finished. The evicted share of them is larger for
        requests with fewer tokens (`_leaving`). Return the numbers of evicted requests, in the
        shape of ``waiting``.
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
        """Return which share of the requests to evict, by the number of tokens generated.

        Of requests that hold z tokens the share 1 - (z / (z + 1))^theta is evicted. The exponent
        theta is such that this frees ``excess`` memory. Entry a of ``tokens`` is the memory that
        requests with a generated tokens need in the next round. Memory is in units of M.
        """
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
        """Start waiting requests, the smallest assumed output length first, while memory suffices.

        Requests start if all future rounds fit into memory under the assumed lengths ([C25]
        Equation (3)). A request that has exceeded its assumed length is assumed to finish in the
        next round. The rules ``a-min-reserve`` and ``a-max-peaks`` count differently. A request
        with prompt length s and assumed length k counts s + k tokens in all rounds. A request that
        has exceeded its assumed length counts the tokens that it holds now.
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
