"""Ratios to H-SF in the limit of M and of n / M, from the fluid of `online.theory`."""

from __future__ import annotations

from collections.abc import Sequence

from online.theory.fluid_limit import Rule, fluid_latency
from online.theory.interval_ratios import h_sf_latency


def leading_ratio(x: Sequence[float], lower: int, rule: Rule) -> float:
    """a where the fluid's total latency is a (n/M)^2 + b (n/M), over H-SF's of [C25] Lemma 4.6.

    s = 0 and everything at once. Two totals determine a, at n/M four and eight times the longest
    output; twice as many moved it by 0.3 % at most in the cases tried. H-SF itself gives 1;
    A_min can stay below, as requests of different ages share memory better than equal ones.

    Parameters
    ----------
    x : Sequence[float]
        x[j] is the share of output length ``lower + j``; they add up to 1.
    lower : int
        The shortest length.
    rule : Rule
        Whose latency.
    """
    batches = 4 * (lower + len(x) - 1)
    once, twice = (fluid_latency(x, 0, lower, count, rule) for count in (batches, 2 * batches))
    return (twice - 2 * once) / (batches**2 * h_sf_latency(x, 0, lower))
