"""Asymptotic ratios to H-SF of the policies for interval predictions ([C25]).

All are limits as M and the number of requests grow, for equal prompts and everything at once.
Each accepts fractions and then computes exactly. alpha = lower / upper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeVar

import numpy as np

from instances import InvalidValueError
from instances.validation import as_integer, as_number

Number = TypeVar("Number", float, Fraction)


def a_min_ratio(
    x: Sequence[float] | Sequence[Fraction], prompt_length: int, lower: int
) -> float | Fraction:
    """A_min's ratio for given shares of output lengths ([C25] Lemma 4.6).

    sum_k d_k (sum_{i>=k} i x_i) (sum_{i>=k} d_k x_i / (s+i) + 2 sum_{i>k} (i-k) x_i / (s+i))
    over sum_k k (s+k) x_k (x_k + 2 sum_{i>k} x_i), with d_l = s + l and d_k = 1 elsewhere.

    Parameters
    ----------
    x : Sequence[float] or Sequence[Fraction]
        X[j] is the share of length ``lower + j``, or any multiple of it; fractions stay exact.
    prompt_length : int
        s of every request, >= 0.
    lower : int
        l >= 1.

    Raises
    ------
    InvalidValueError
        No shares, a negative one, or all 0.
    """
    s, ell = checked_lengths(x, prompt_length, lower)
    exact = all(isinstance(share, Rational) for share in x)
    number: Any = Fraction if exact else float
    shares, k = (
        np.array([number(one) for one in values], dtype=object if exact else np.float64)
        for values in (x, range(ell, ell + len(x)))
    )
    step = np.where(k == ell, number(s + ell), number(1))
    per_token = shares / (s + k)
    mass, tokens = _tails(shares), _tails(k * shares)
    light, heavy = _tails(per_token), _tails(k * per_token)
    left = heavy - k * light
    total = (step * tokens * (step * light + 2 * left)).sum()
    shortest = (k * (s + k) * shares * (2 * mass - shares)).sum()
    return total / shortest if exact else float(total / shortest)


def h_sf_latency(x: Sequence[float], prompt_length: int, lower: int) -> float:
    """H-SF's total latency in units of n^2 / (2 M), from the proof of [C25] Lemma 4.6.

    sum_k k (s+k) x_k (x_k + 2 sum_{i>k} x_i): every batch is taken to hold the peaks of its
    requests from start to end. Parameters and errors as for `a_min_ratio`, shares adding up to 1.
    """
    s, ell = checked_lengths(x, prompt_length, lower)
    shares = np.asarray(x, dtype=np.float64)
    k = np.arange(ell, ell + len(shares), dtype=np.float64)
    return float((k * (s + k) * shares * (2 * _tails(shares) - shares)).sum())


def checked_lengths(
    x: Sequence[float] | Sequence[Fraction], prompt_length: int, lower: int
) -> tuple[int, int]:
    """Return both lengths, checked; the shares must be numbers >= 0, one of them above 0."""
    s = as_integer(prompt_length, None, "prompt_length", minimum=0)
    ell = as_integer(lower, None, "lower", minimum=1)
    if not sum(as_number(share, None, "x", minimum=0) for share in x):
        raise InvalidValueError(None, "x", list(x), "is not a list of shares")
    return s, ell


def _tails(values: np.ndarray) -> np.ndarray:
    return values[::-1].cumsum()[::-1]


def a_max_ratio_upper_bound(alpha: Number) -> Number:
    """(1/alpha) (1 + 1/alpha) / 2: A_max is never worse ([C25] Theorem 3.3)."""
    alpha = _share(alpha, "alpha", above=0)
    return (1 + 1 / alpha) / (2 * alpha)


def a_max_ratio_lower_bound(alpha: float) -> float:
    """(1/alpha) (1 + alpha^(-1/2)) / 2, as stated in [C25] Theorem 3.4.

    The instance of its proof does not attain this bound. The expression in the proof is
    `a_max_two_point_ratio` at a/b = alpha^(1/2), which is 3 and not 6 at alpha = 1/4. Over all a/b
    it stays below 1.21 / alpha; its maximum is at a/b = 1 + sqrt(2 + 2 alpha). Simulations agree
    with the expression.
    """
    alpha = _share(alpha, "alpha", above=0)
    return (1 + 1 / math.sqrt(alpha)) / (2 * alpha)


def a_max_two_point_ratio(alpha: Number, balance: Number) -> Number:
    """A_max's ratio for s = 0 and outputs lower or upper, from the proof of [C25] Theorem 3.4.

    (1/alpha) (t + alpha) (t + 1) / (t^2 + 2 alpha t + 1), with ``balance`` t = a/b where a u
    requests have the lower length l and b l the upper length u.
    """
    alpha = _share(alpha, "alpha", above=0)
    t = _exact(balance, "balance", minimum=0)
    return (t + alpha) * (t + 1) / (alpha * (t * t + 2 * alpha * t + 1))


def a_random_ratio_bound(alpha: Number) -> Number:
    """(1 + 1/alpha) / 2 for A_random ([C25] Theorem 8.6)."""
    alpha = _share(alpha, "alpha", above=0)
    return (1 + 1 / alpha) / 2


def a_min_two_point_ratio_bound(alpha: Number) -> Number:
    """(3 - alpha) / 2 for A_min where outputs are lower or upper ([C25] Theorem 5.1), for s = 0.

    Not a bound for s > 0, which the proof sets aside. It is the maximum of `a_min_ratio` over the
    shares, at x_l / x_u = 1 / alpha.
    """
    alpha = _share(alpha, "alpha", above=0)
    return (3 - alpha) / 2


def a_ell_ratio_bound(alpha: Number) -> Number:
    """1 + alpha / (2 (1 - alpha)) up to 1/2, then 1 + 2 alpha^2 ([C25] Theorem 5.2): A_l, s = 0.

    Not a bound for s > 0, where A_l tends to 1 + 2 alpha on outputs that are all upper. It is the
    maximum over the shares, at x_l / x_u = max(0, 1/alpha - 2).
    """
    alpha = _share(alpha, "alpha", above=0)
    if 2 * alpha <= 1:
        return 1 + alpha / (2 * (1 - alpha))
    return 1 + 2 * alpha * alpha


def _exact(value: Number, field: str, **bounds: float) -> Number:
    """A float, or a fraction that stays exact."""
    number = as_number(value, None, field, **bounds)
    return value if isinstance(value, Fraction) else number


def _share(value: Number, field: str, **bounds: float) -> Number:
    return _exact(value, field, maximum=1, **bounds)
