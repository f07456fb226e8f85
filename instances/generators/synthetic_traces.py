"""Synthetic conversations and summaries, in place of data that may not be distributed.

LMSYS-Chat-1M is gated, and the set of papers that [W25] Section 7 summarises is not part of this
package. The laws here have exactly the mean and median lengths that [J25] and [W25] publish. They
are rounded lognormal laws. That of the long prompts, whose mean is below their median, is mirrored.
No other property is imitated: other moments differ (docs/instances.md has them), prompt and output
are independent, and arrivals are a Poisson process or all at once. The name and the metadata of
every instance say that it is synthetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from instances.errors import InvalidValueError
from instances.problem.instance import Instance
from instances.problem.workload import Workload, poisson_times
from instances.validation import as_integer, ranged

from .length_laws import Law, draw_lengths, draw_order, lognormal_law
from .registry import SYNTHETIC, Family

Lengths = npt.NDArray[np.int64]

MEMORY_LIMIT = 16_492
"""Memory limit M, in tokens, of the experiments of [J25] Section 5.2 and [W25] Section 7."""


@dataclass(frozen=True)
class PublishedLengths:
    """Published mean and median of prompt or output lengths, and the largest length to draw.

    Attributes
    ----------
    mean, median, maximum : float, float, int
        In tokens.
    mirrored : bool
        Whether maximum + 1 - length has a lognormal law, and not the length itself. True for
        lengths whose mean is below their median.
    """

    mean: float
    median: float
    maximum: int
    mirrored: bool = False

    @cached_property
    def law(self) -> Law:
        """Probability of each length 1 .. maximum, with this mean and median, shape (maximum,)."""
        if not self.mirrored:
            return lognormal_law(self.median, self.mean, self.maximum)
        top = self.maximum + 1
        return lognormal_law(top - self.median, top - self.mean, self.maximum)[::-1]


CONVERSATION_PROMPTS = PublishedLengths(41.84, 12, 468)
CONVERSATION_OUTPUTS = PublishedLengths(85.35, 43, 883)
"""Prompts and outputs of LMSYS-Chat-1M: mean and median of [W25] Section 7, maximum of [C25]."""

SERVED_PROMPTS = PublishedLengths(40.62, 11.0, 2048)
SERVED_OUTPUTS = PublishedLengths(85.32, 45.0, 2048)
"""Prompts and outputs of LMSYS-Chat-1M, counted in words: mean, median of [J25] Section 5.2. The
maximum is not published. Longer ones are cut to 2048, as by the context of a model."""

SUMMARY_PROMPTS = PublishedLengths(2546.39, 2667.5, 4095, mirrored=True)
SUMMARY_OUTPUTS = PublishedLengths(296.08, 161, 4095)
"""Prompts and outputs of arXiv summaries: mean, median of [W25] Section 7, context 4096 tokens."""


def _drawn(
    rng: np.random.Generator, laws: tuple[PublishedLengths, PublishedLengths], n: int
) -> tuple[Lengths, Lengths]:
    prompts, outputs = (draw_lengths(rng, one.law, n) for one in laws)
    return prompts, outputs


def _arrivals(rng: np.random.Generator, n: int, arrival_rate: float | None) -> Lengths:
    if arrival_rate is None:
        return np.zeros(n, dtype=np.int64)
    # Gaps of the Poisson process are exponential: -log(1 - u) / rate for uniform u. A request
    # arrives at the first round boundary after its time, so times are rounded up.
    arrivals = np.ceil(np.cumsum(-np.log1p(-rng.random(n))) / arrival_rate)
    if not arrivals[-1] < 2**53:
        reason = "is too small: arrivals never come"
        raise InvalidValueError(None, "arrival_rate", arrival_rate, reason)
    return arrivals.astype(np.int64)


class _Scaled(Family):
    """Base class of generators that divide drawn lengths by ``token_scale`` and round them up."""

    n: int = ranged(1000, minimum=1)
    arrival_rate: float | None = ranged(None, above=0)
    token_scale: int = ranged(1, minimum=1)
    memory_limit: int = MEMORY_LIMIT
    longest: ClassVar[tuple[PublishedLengths, PublishedLengths]]
    imitated: ClassVar[str]

    def lengths(self, rng: np.random.Generator) -> tuple[Lengths, Lengths]:
        """Draw prompt lengths and output lengths, before scaling, shape (n,) each."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw lengths, then arrivals; return the instance with scaled lengths."""
        columns = [*self.lengths(rng), [one.maximum for one in self.longest]]
        prompts, outputs, largest = (-(-np.asarray(one) // self.token_scale) for one in columns)
        arrivals = _arrivals(rng, self.n, self.arrival_rate)
        enough = int(largest.sum())
        limit = as_integer(self.memory_limit, None, "memory_limit", minimum=enough)
        laws = f"laws with the published mean and median of {self.imitated}"
        told = {SYNTHETIC: f"lengths drawn from {laws}"}
        return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit, metadata=told)


class LmsysLike(_Scaled, name="lmsys-like"):
    """Synthetic conversations with the published mean and median lengths of LMSYS-Chat-1M.

    Prompts have mean 41.84 and median 12 tokens, outputs mean 85.35 and median 43 ([W25] Section
    7). The largest prompt has 468 tokens, the largest output 883 ([C25] Section 6). Other moments
    and arrival times are not those of the data.

    Parameters
    ----------
    n : int, default 1000
        Number of requests.
    arrival_rate : float or None, default None
        Mean arrivals per round of a Poisson process; None has all arrive at round 0.
    token_scale : int, default 1
        Lengths are divided by it and rounded up.
    memory_limit : int, default MEMORY_LIMIT
        M, in scaled tokens.
    """

    longest = (CONVERSATION_PROMPTS, CONVERSATION_OUTPUTS)
    imitated = "LMSYS-Chat-1M"

    def lengths(self, rng: np.random.Generator) -> tuple[Lengths, Lengths]:
        """Draw prompt and output lengths of conversations, in tokens, shape (n,) each."""
        return _drawn(rng, self.longest, self.n)


class Conversations(Family, name="conversations"):
    """Synthetic conversations arriving in seconds, with the moments of [J25] Section 5.2.

    Prompts have mean 40.62 and median 11 tokens, outputs mean 85.32 and median 45. None exceeds
    2048 tokens. The result is a workload with arrival times in seconds, for which a batch time
    determines how long a round lasts.

    Parameters
    ----------
    rate : float
        Mean arrivals per second of a Poisson process.
    n : int, default 1000
        Number of requests.
    memory_limit : int, default MEMORY_LIMIT
        M, tokens.
    """

    rate: float = ranged(above=0)
    n: int = ranged(1000, minimum=1)
    memory_limit: int = MEMORY_LIMIT

    def draw(self, rng: np.random.Generator) -> Workload:
        """Draw lengths, then arrival times in seconds; return the workload."""
        lengths = conversation_lengths(rng, self.n)
        metadata = {SYNTHETIC: "lengths drawn from laws with the mean and median of [J25]"}
        times, limit = poisson_times(rng, self.n, self.rate), self.memory_limit
        return Workload(times, *lengths, memory_limit=limit, metadata=metadata)


def conversation_lengths(rng: np.random.Generator, count: int) -> tuple[Lengths, Lengths]:
    """Draw prompt and output lengths of the generator ``conversations``, in tokens.

    They have rounded lognormal laws with the published means and medians.
    """
    return _drawn(rng, (SERVED_PROMPTS, SERVED_OUTPUTS), count)


class MixedLongShort(_Scaled, name="mixed-long-short"):
    """Synthetic mix of conversations and long summaries, with published means and medians.

    It is the mix of [W25] Section 7, in random order. The share ``long_share`` of the requests are
    summaries: their prompts have mean 2546.39 and median 2667.5 tokens, their outputs mean 296.08
    and median 161. The other requests have lengths as in ``lmsys-like``. Other moments and arrival
    times are not those of the data.

    Parameters
    ----------
    n : int, default 2000
        Number of requests.
    long_share : float, default 0.2
        Fraction of the requests that are summaries, strictly between 0 and 1.
    arrival_rate : float or None, default None
        Mean arrivals per round of a Poisson process; None has all arrive at round 0.
    token_scale : int, default 1
        Lengths are divided by it and rounded up.
    memory_limit : int, default MEMORY_LIMIT
        M, in scaled tokens.
    """

    n: int = ranged(2000, minimum=1)
    long_share: float = ranged(0.2, above=0, below=1)
    longest = (SUMMARY_PROMPTS, SUMMARY_OUTPUTS)
    imitated = "LMSYS-Chat-1M and of arXiv summaries"

    def lengths(self, rng: np.random.Generator) -> tuple[Lengths, Lengths]:
        """Draw prompt and output lengths of conversations and of summaries, then their order."""
        long = round(self.n * self.long_share)
        conversations = (CONVERSATION_PROMPTS, CONVERSATION_OUTPUTS)
        prompts, outputs = (
            np.concatenate(
                [draw_lengths(rng, one.law, self.n - long), draw_lengths(rng, two.law, long)]
            )
            for one, two in zip(conversations, self.longest, strict=True)
        )
        order = draw_order(rng, self.n)
        return prompts[order], outputs[order]
