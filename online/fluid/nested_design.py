"""Segments, thresholds and memory of Nested WAIT for a workload ([A25] Theorems 2 and 4).

Segment k = 1 .. m covers the stages e_{k-1} + 1 .. e_k of the decode phase. Segment 1 also covers
stage 0, the prefill. n_k is the threshold of segment k: the most prompts that a batch advances at
each of its stages. p_k is the share of prompts that continue from segment k - 1 to segment k, and
D_k = n_k - p_k n_{k-1} the drift of segment k.

Two formulas of [A25] are corrected here. The first is M_pi, the tokens of the largest batch
(Equation (13)). The printed one omits stage 0 and, for k >= 3, overstates the tokens of a prompt.
The second is the lower bound (22) on theta_k, the `decay_rate` of the queue for segment k. It is
8 D_k / n_{k-1}. Theorems 2 and 4 print 8 D_k / n_k, which is larger and not a bound: with the
thresholds n = (12, 7) and p_2 = 1/2, theta_2 is 0.679, which is below 8/7.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from instances import InvalidValueError
from instances.validation import LARGEST_INTEGER, as_integer, as_number, check_ranges, ranged

from .balance import PromptType, coefficients, token_load
from .wait_design import ROUNDING, Plan


@dataclass(frozen=True)
class Segments:
    """Prompts of one prefill length, grouped by the segment in which their output ends.

    Stage s of a prompt is the iteration that makes its s-th output token. Segment k = 1 .. m covers
    stages e_{k-1} + 1 .. e_k, with e_0 = 0 ([A25] Sections 5.1, 7.2).

    Parameters
    ----------
    prefill_length : int
        l, tokens of every prompt.
    ends : tuple[int, ...]
        e_1 < .. < e_m, the last stage of each segment.
    arrival_rates : tuple[float, ...]
        lambda_k >= 0, prompts per second whose output ends in segment k. The last one is > 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A field is out of its range, or the numbers of ends and of arrival rates differ.
    """

    prefill_length: int = ranged(minimum=1)
    ends: tuple[int, ...] = ranged(minimum=1)
    arrival_rates: tuple[float, ...] = ranged(minimum=0, maximum=LARGEST_INTEGER)

    def __post_init__(self) -> None:
        check_ranges(self, "segments")
        if len(self.ends) != len(self.arrival_rates):
            reason = "are not as many as the arrival rates"
            raise InvalidValueError("segments", "ends", self.ends, reason)
        if self.ends != tuple(sorted(set(self.ends))):
            raise InvalidValueError("segments", "ends", self.ends, "are not increasing")
        if self.arrival_rates[-1] == 0:
            raise InvalidValueError("segments", "arrival_rates", self.arrival_rates, "end with 0")

    def __len__(self) -> int:
        """Return m, the number of segments."""
        return len(self.ends)

    @cached_property
    def entering_rates(self) -> tuple[float, ...]:
        """Lam_k for k = 1 .. m: prompts per second that enter segment k.

        Lam_k = sum_{i >= k} lambda_i, where lambda_i prompts per second end in segment i.
        """
        return tuple(math.fsum(self.arrival_rates[k:]) for k in range(len(self)))

    @cached_property
    def continuation(self) -> tuple[float, ...]:
        """p_k = Lam_k / Lam_{k-1} for k = 2 .. m: share of prompts that go on to segment k.

        Lam_k is the number of prompts per second that enter segment k (`entering_rates`).
        """
        rates = self.entering_rates
        return tuple(after / before for before, after in pairwise(rates))

    @property
    def stages(self) -> tuple[int, ...]:
        """delta_k for k = 1 .. m: number of stages (iterations of a prompt) in segment k.

        Segment 1 also has stage 0, the prefill.
        """
        starts = (-1, *self.ends[:-1])
        return tuple(end - start for start, end in zip(starts, self.ends, strict=True))

    @property
    def mean_stages(self) -> tuple[float, ...]:
        """sbar_k for k = 1 .. m: the mean of the first and the last stage of segment k.

        A prompt at stage s has s output tokens. So sbar_k is the mean number of output tokens of a
        prompt in segment k.
        """
        firsts = (0, *(end + 1 for end in self.ends[:-1]))
        return tuple((first + end) / 2 for first, end in zip(firsts, self.ends, strict=True))


def group(types: Sequence[PromptType], segments: int | None = None) -> Segments:
    """Divide the decode lengths of a workload into segments ([A25] Section 7.2).

    Parameters
    ----------
    types : Sequence[PromptType]
        The workload, all with the same prefill length.
    segments : int or None, default None
        Number of segments. The distinct decode lengths are divided among them as evenly as
        possible. None makes one segment for each decode length.

    Raises
    ------
    InvalidValueError
        Prefill lengths differ, or there are more segments than decode lengths.
    """
    token_load(types)
    prefills = {kind.prefill_length for kind in types}
    if len(prefills) > 1:
        raise InvalidValueError(None, "prefill_length", sorted(prefills), "is not the same for all")
    lengths = sorted({kind.decode_length for kind in types})
    most = len(lengths)
    given = most if segments is None else segments
    number = as_integer(given, None, "segments", minimum=1, maximum=most)
    ends = [lengths[(k + 1) * most // number - 1] for k in range(number)]
    rates = [0.0] * len(ends)
    for kind in types:
        rates[int(np.searchsorted(ends, kind.decode_length))] += kind.arrival_rate
    return Segments(prefills.pop(), tuple(ends), tuple(rates))


class MemoryRequirement(NamedTuple):
    """Memory that Nested WAIT needs, in tokens, in the three parts of [A25] Equations (14), (17).

    Up to n_k prompts (the threshold) enter segment k = 1 .. m in a batch. A prompt that waits to
    enter segment k has finished stage e_{k-1} and holds l + e_{k-1} tokens, where l is the prefill
    length. theta_k is the `decay_rate` of the queue of these prompts. d0 is the fixed time of an
    iteration. With probability at least 1 - delta the memory is enough for T seconds.

    Attributes
    ----------
    batch : float
        M_pi, tokens of the largest batch: n_k prompts at each stage of each segment k.
    boundary : float
        sum_{k >= 2} n_k (l + e_{k-1}), tokens of the first n_k prompts that wait for segment k.
    buffer : float
        sum_{k >= 2} (l + e_{k-1}) ln(m (1 + T / d0) / delta) / theta_k, tokens of further prompts
        that wait for segment k. Within T seconds they need more with probability at most delta.
    """

    batch: float
    boundary: float
    buffer: float

    @property
    def total(self) -> float:
        """Sum of the three parts, in tokens.

        With this memory, overflow within T seconds has probability at most delta.
        """
        return self.batch + self.boundary + self.buffer


@dataclass(frozen=True)
class NestedPlan(Plan[Segments]):
    """Thresholds n_k of Nested WAIT with their memory and drifts ([A25] Theorem 2).

    A batch advances up to n_k prompts at each stage of segment k.
    """

    @property
    def batch_memory(self) -> float:
        """M_pi = sum_k n_k delta_k (l + sbar_k), tokens of the largest batch.

        This is [A25] Equation (13), corrected. The largest batch has n_k prompts (the threshold) at
        each of the delta_k stages of segment k. They hold l + sbar_k tokens on average, where l is
        the prefill length and sbar_k the mean stage of the segment.
        """
        s = self.workload
        return sum(
            n * stages * (s.prefill_length + mean)
            for n, stages, mean in zip(self.thresholds, s.stages, s.mean_stages, strict=True)
        )

    @cached_property
    def drifts(self) -> tuple[float, ...]:
        """D_k for each segment k: prompts that a batch can take in minus new prompts per batch.

        Segment 1 takes in n_1 prompts per batch (the threshold), while Lam_1 DT(n) prompts arrive:
        Lam_1 per second, for the DT(n) seconds of the longest iteration. Segment k >= 2 takes in
        n_k prompts. The share p_k of the n_{k-1} prompts of segment k - 1 continues to it, so
        D_k = n_k - p_k n_{k-1}.
        """
        first = self.thresholds[0] - self.workload.entering_rates[0] * self.batch_duration
        pairs = zip(pairwise(self.thresholds), self.workload.continuation, strict=True)
        return (first, *(n - p * prior for (prior, n), p in pairs))

    @property
    def keeps_up(self) -> bool:
        """Whether all `drifts` are positive: [A25] Equations (12), (16).

        Each segment then takes in more prompts per batch than join its queue.
        """
        return all(d > ROUNDING * n for d, n in zip(self.drifts, self.thresholds, strict=True))

    @cached_property
    def thetas(self) -> tuple[float, ...]:
        """theta_k for k = 2 .. m, the `decay_rate` of the queue of prompts for segment k.

        n_k is the threshold of segment k. The probability that n_k + x prompts wait to enter
        segment k falls like exp(-theta_k x) as x grows ([A25] Equation (20)).
        """
        pairs = zip(pairwise(self.thresholds), self.workload.continuation, strict=True)
        return tuple(decay_rate(n, prior, p) for (prior, n), p in pairs)

    def memory_requirement(self, horizon: float, overflow_probability: float) -> MemoryRequirement:
        """Return the memory with which overflow within T seconds has probability at most delta.

        See [A25] Equations (14), (17). The memory is infinite if one of the `drifts` after the
        first is not positive. The queue for that segment then grows without bound.

        Parameters
        ----------
        horizon : float
            T, seconds of operation, > 0.
        overflow_probability : float
            delta, in (0, 1): largest probability that the memory overflows within T seconds.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            An argument that is not a number in its range.
        """
        horizon = as_number(horizon, None, "horizon", above=0)
        delta = as_number(overflow_probability, None, "overflow_probability", above=0, below=1)
        log = math.log(len(self.workload) * (1 + horizon / self.d0) / delta)
        boundary = buffer = 0.0
        for k, theta in enumerate(self.thetas, start=1):
            tokens = self.workload.prefill_length + self.workload.ends[k - 1]
            boundary += self.thresholds[k] * tokens
            buffer += tokens * log / theta if theta > 0 else math.inf
        return MemoryRequirement(self.batch_memory, boundary, buffer)


def decay_rate(n: int, previous: int, share: float) -> float:
    """Return the rate theta with which long queues for a segment become improbable.

    The probability of x prompts in the queue falls like exp(-theta x). Each batch takes up to n
    prompts from the queue. Of the segment before, ``previous`` prompts per batch end their last
    stage, and each joins the queue with probability p = ``share``. So theta > 0 solves
    exp(-theta n) (1 - p + p e^theta)^previous = 1 ([A25] Equation (20)). The rate is 0 if
    n <= p * previous, because the queue then does not shrink. It is infinite if n >= previous,
    because the queue then never exceeds one batch.

    Raises
    ------
    InvalidValueError
        A share outside (0, 1], or n or previous below 1.
    """
    n = as_integer(n, None, "n", minimum=1)
    previous = as_integer(previous, None, "previous", minimum=1)
    share = as_number(share, None, "share", above=0, maximum=1)
    drift = n - previous * share
    if drift <= ROUNDING * n:
        return 0.0
    if n >= previous:
        return math.inf
    # scipy is imported here and not at the top of the module. Policies do not need it, and loading
    # it takes longer than their runs.
    from scipy.optimize import brentq

    def exponent(theta: float) -> float:
        # ``grown`` is log(1 - p + p e^theta) with p = ``share``. The form for theta < 1 is accurate
        # near 0. The form for larger theta cannot overflow.
        grown = (
            math.log1p(share * math.expm1(theta))
            if theta < 1
            else float(np.logaddexp(math.log1p(-share), math.log(share) + theta))
        )
        return previous * grown - n * theta

    # The search for theta starts at half of the lower bound of [A25] Equation (22). At the bound
    # itself, round-off may give ``exponent`` a wrong sign.
    low = 4 * drift / previous
    high = 4 * low
    while exponent(high) <= 0:
        high *= 2
    return float(brentq(exponent, low, high, xtol=1e-14, rtol=1e-13))


def nested_thresholds(
    segments: Segments,
    d0: float,
    d1: float,
    *,
    margin: float = 0.05,
    batch_cap: int | None = None,
) -> NestedPlan:
    """Return thresholds n_k of Nested WAIT that exceed the prompts entering segment k by a margin.

    The share p_k of the prompts of segment k - 1 enters segment k, which has delta_k stages. The
    result is n_k = n_1 q_2 .. q_k with q_k = min(p_k + margin, 0.99), rounded up. For p_k near 1
    this n_k may be at most p_k n_{k-1}. It is then raised to the next whole number above.

    [A25] Section 6.2 uses thresholds proportional to Lam_k, the prompts per second that enter
    segment k. With these, the drift n_k - p_k n_{k-1} of every segment k >= 2 is 0. So the
    condition (12) fails, and the memory in (14) is infinite.

    Parameters
    ----------
    segments, d0, d1 : Segments, float, float
        The workload, and the coefficients of the iteration time.
    margin : float, default 0.05
        Drift n_k - p_k n_{k-1} of segment k as a share of n_{k-1}, before rounding, > 0.
    batch_cap : int or None, default None
        B, the most prompts in a batch. The result has the largest n_1 >= 1 with
        sum_k n_k delta_k <= B, even if its `drifts` are not all positive. None: the smallest n_1
        with which they are.

    Raises
    ------
    InvalidValueError
        No n_1 gives positive `drifts`, because the load with the margins is 1 or more.
    """
    margin = as_number(margin, None, "margin", above=0)
    d0, d1 = coefficients(d0, d1)
    shares = [min(p + margin, 0.99) for p in segments.continuation]

    def plan(first: int) -> NestedPlan:
        counts, exact = [first], float(first)
        for share, p in zip(shares, segments.continuation, strict=True):
            exact *= share
            least = math.floor(p * counts[-1] + ROUNDING) + 1
            counts.append(max(math.ceil(exact - ROUNDING), least))
        return NestedPlan(segments, tuple(counts), d0, d1)

    def size(first: int) -> int:
        pairs = zip(plan(first).thresholds, segments.stages, strict=True)
        return sum(n * stages for n, stages in pairs)

    if batch_cap is not None:
        cap = as_integer(batch_cap, None, "batch_cap", minimum=1)
        return plan(max(1, bisect_right(range(1, max(2, cap)), cap, key=size)))
    # The load decides whether any n_1 keeps up. For large n_1 rounding has no effect: n_k / n_{k-1}
    # is q_k (or p_k if p_k > 0.99), and segment 1 has the drift n_1 (1 - load) - Lam_1 d0. Lam_1
    # prompts arrive per second.
    ratios, product = [1.0], 1.0
    for share, p in zip(shares, segments.continuation, strict=True):
        product *= share
        ratios.append(max(product, p * ratios[-1]))
    sizes = zip(ratios, segments.stages, segments.mean_stages, strict=True)
    relative = sum(n * stages * (segments.prefill_length + mean) for n, stages, mean in sizes)
    load = segments.entering_rates[0] * d1 * relative
    if load >= 1:
        raise InvalidValueError("workload", "load with margins", load, "is not below 1")
    first = max(1, math.floor(segments.entering_rates[0] * d0 / (1 - load)))
    while not plan(first).keeps_up:
        first += 1
    return plan(first)
