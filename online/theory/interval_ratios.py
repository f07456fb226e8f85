"""Asymptotic ratios to H-SF of the policies that are given intervals of output lengths ([C25]).

A ratio is (total latency of the policy) / (total latency of H-SF). H-SF starts the shortest
requests first and knows the output lengths. All ratios are limits as memory and the number of
requests grow, for equal prompts and all requests at once. Each function accepts fractions and then
computes exactly. alpha = lower / upper is the quotient of the ends of the interval of output
lengths that the policy is given.
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
    """Return the latency ratio of A_min to H-SF for given output lengths ([C25] Lemma 4.6).

    It is the limit of (total latency of `a-min`) / (total latency of `h-sf`) as M and the number of
    requests grow. x_k is the share of requests with output length k. The numerator is
    sum_k d_k (sum_{i>=k} i x_i) (sum_{i>=k} d_k x_i / (s+i) + 2 sum_{i>k} (i-k) x_i / (s+i))
    with d_l = s + l and d_k = 1 for k > l. The denominator is
    sum_k k (s+k) x_k (x_k + 2 sum_{i>k} x_i). s is the prompt length and l the least output length.
    Sums are over output lengths k and i from l on.

    Parameters
    ----------
    x : Sequence[float] or Sequence[Fraction]
        X[j] is the share of requests with output length ``lower + j``. The sum need not be 1.
        Fractions give an exact result.
    prompt_length : int
        Prompt length s of every request, >= 0.
    lower : int
        Least output length l >= 1.

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
    """Return the total latency of H-SF in units of n^2 / (2 M), from the proof of [C25] Lemma 4.6.

    It is sum_k k (s+k) x_k (x_k + 2 sum_{i>k} x_i) for n requests with prompt length s and memory
    M. The share x_k of them has output length k. The formula assumes that each request holds its
    peak s + k from start to end. Parameters and errors are those of `a_min_ratio`. The shares must
    have the sum 1.
    """
    s, ell = checked_lengths(x, prompt_length, lower)
    shares = np.asarray(x, dtype=np.float64)
    k = np.arange(ell, ell + len(shares), dtype=np.float64)
    return float((k * (s + k) * shares * (2 * _tails(shares) - shares)).sum())


def checked_lengths(
    x: Sequence[float] | Sequence[Fraction], prompt_length: int, lower: int
) -> tuple[int, int]:
    """Check the arguments of `a_min_ratio`. Return prompt length and least output length.

    The shares ``x`` must be numbers >= 0, at least one of them above 0.
    """
    s = as_integer(prompt_length, None, "prompt_length", minimum=0)
    ell = as_integer(lower, None, "lower", minimum=1)
    if not sum(as_number(share, None, "x", minimum=0) for share in x):
        raise InvalidValueError(None, "x", list(x), "is not a list of shares")
    return s, ell


def _tails(values: np.ndarray) -> np.ndarray:
    return values[::-1].cumsum()[::-1]


def a_max_ratio_upper_bound(alpha: Number) -> Number:
    """Return (1/alpha) (1 + 1/alpha) / 2, an upper bound on A_max's ratio ([C25] Theorem 3.3).

    The ratio is the total latency of A_max over that of H-SF, as memory grows. alpha = lower /
    upper is the quotient of the ends of the interval of output lengths.
    """
    alpha = _share(alpha, "alpha", above=0)
    return (1 + 1 / alpha) / (2 * alpha)


def a_max_ratio_lower_bound(alpha: float) -> float:
    """Return (1/alpha) (1 + alpha^(-1/2)) / 2, a lower bound on A_max's ratio ([C25] Theorem 3.4).

    alpha = l / u is the quotient of the ends l and u of the interval of output lengths. The
    instances in the proof of the theorem do not attain this bound. They have a * u requests of
    output length l and b * l requests of output length u, and their ratio is
    `a_max_two_point_ratio`. The proof takes a/b = alpha^(1/2). For alpha = 1/4 the ratio is then 3,
    while the bound is 6. The largest ratio over all a/b is below 1.21 / alpha, at
    a/b = 1 + sqrt(2 + 2 alpha). Simulations agree with `a_max_two_point_ratio`.
    """
    alpha = _share(alpha, "alpha", above=0)
    return (1 + 1 / math.sqrt(alpha)) / (2 * alpha)


def a_max_two_point_ratio(alpha: Number, balance: Number) -> Number:
    """Return A_max's ratio for empty prompts and two output lengths (proof of [C25] Theorem 3.4).

    a * u requests have the output length l, and b * l requests have the output length u > l. The
    parameters are alpha = l / u and ``balance`` t = a/b. The latency ratio of A_max to H-SF, as
    memory grows, is (1/alpha) (t + alpha) (t + 1) / (t^2 + 2 alpha t + 1).
    """
    alpha = _share(alpha, "alpha", above=0)
    t = _exact(balance, "balance", minimum=0)
    return (t + alpha) * (t + 1) / (alpha * (t * t + 2 * alpha * t + 1))


def a_random_ratio_bound(alpha: Number) -> Number:
    """Return (1 + 1/alpha) / 2, an upper bound on A_random's ratio ([C25] Theorem 8.6).

    The ratio is the total latency of A_random over that of H-SF, as memory grows. alpha = lower /
    upper is the quotient of the ends of the interval of output lengths.
    """
    alpha = _share(alpha, "alpha", above=0)
    return (1 + 1 / alpha) / 2


def a_min_two_point_ratio_bound(alpha: Number) -> Number:
    """Return (3 - alpha) / 2, an upper bound on A_min's ratio for empty prompts and two outputs.

    The ratio is the total latency of A_min over that of H-SF, as memory grows. The two output
    lengths are the ends l and u of the interval, with alpha = l / u ([C25] Theorem 5.1). For
    prompts that are not empty, which the proof excludes, the ratio can be larger. The bound is the
    maximum of `a_min_ratio` over the shares x_l and x_u of requests with these lengths. It is
    attained at x_l / x_u = 1 / alpha.
    """
    alpha = _share(alpha, "alpha", above=0)
    return (3 - alpha) / 2


def a_ell_ratio_bound(alpha: Number) -> Number:
    """Return an upper bound on A_l's ratio for empty prompts and two output lengths.

    The ratio is the total latency of A_l over that of H-SF, as memory grows. The two output lengths
    are the ends l and u of the interval, with alpha = l / u ([C25] Theorem 5.2). The bound is
    1 + alpha / (2 (1 - alpha)) for alpha <= 1/2, and 1 + 2 alpha^2 for larger alpha. It is the
    maximum of `a_ell_two_point_ratio` over the shares x_l and x_u of requests with these lengths,
    attained at x_l / x_u = max(0, 1/alpha - 2). With prompts of length s > 0 the ratio can be
    larger: if all outputs have length u, it tends to 1 + 2 alpha as s grows.
    """
    alpha = _share(alpha, "alpha", above=0)
    if 2 * alpha <= 1:
        return 1 + alpha / (2 * (1 - alpha))
    return 1 + 2 * alpha * alpha


def a_ell_two_point_ratio(alpha: Number, balance: Number) -> Number:
    """Return A_l's ratio for empty prompts and two output lengths (proof of [C25] Theorem 5.2).

    The share x_l of the requests has output length l, the share x_u has length u > l. The
    parameters are alpha = l / u and ``balance`` t = x_l / x_u. The latency ratio of A_l to H-SF, as
    memory grows, is 1 + alpha^2 (t + 2) / (alpha^2 t^2 + 2 alpha^2 t + 1).
    """
    alpha = _share(alpha, "alpha", above=0)
    t, square = _exact(balance, "balance", minimum=0), alpha * alpha
    return 1 + square * (t + 2) / (square * t * t + 2 * square * t + 1)


def a_min_linear_geometric_ratio(q: Number) -> Number:
    """Return A_min's ratio for linearly weighted geometric output lengths ([C25] Theorem 5.3).

    The share of requests with output length k = 1, 2, .. is k (1-q)^2 q^(k-1). Prompts are empty.
    The ratio is the limit of (total latency of `a-min`) / (total latency of `h-sf`) as memory
    grows. It is at most 14/9.
    """
    q = _share(q, "q", minimum=0)
    top = (1 + q) ** 2 * (1 + 3 * q + 6 * q**2 + 3 * q**3 + q**4)
    return top / (1 + 2 * q + 11 * q**2 + 8 * q**3 + 11 * q**4 + 2 * q**5 + q**6)


def _exact(value: Number, field: str, **bounds: float) -> Number:
    """Check that ``value`` is within bounds. Return it unchanged if a Fraction, else as a float.

    ``field`` is its name in the error message.
    """
    number = as_number(value, None, field, **bounds)
    return value if isinstance(value, Fraction) else number


def _share(value: Number, field: str, **bounds: float) -> Number:
    return _exact(value, field, maximum=1, **bounds)
