"""Families of [W25] Section EC.4.2: prompts and outputs both vary, all requests at round 0.

The defaults are the numbers of the paper: memory limit M = 100, lengths up to 50, and 100 requests
(200 in the mixed family, Table EC.1). The paper draws real numbers and does not say how they become
token counts. Here they are rounded to the nearest whole number, then clipped. Prompts and outputs
are independent.
"""

from __future__ import annotations

import numpy as np

from instances.problem.instance import Instance
from instances.validation import as_integer, ranged

from .length_laws import (
    Law,
    binomial_law,
    draw_lengths,
    exponential,
    lognormal,
    mixture,
    normal,
    rounded,
    uniform_law,
)
from .registry import Family


class _Lengths(Family):
    n: int = ranged(100, minimum=1)
    maximum_length: int = ranged(50, minimum=2)
    memory_limit: int = 100

    def laws(self) -> tuple[Law, Law]:
        """Return the laws of prompt lengths and of output lengths, by default the same law."""
        law = self.law()
        return law, law

    def law(self) -> Law:
        """Return the probabilities of the lengths 1 .. maximum_length, for prompts and outputs."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw prompt lengths, then output lengths; all requests arrive at round 0."""
        largest = 2 * self.maximum_length
        limit = as_integer(self.memory_limit, None, "memory_limit", minimum=largest)
        prompts, outputs = (draw_lengths(rng, law, self.n) for law in self.laws())
        return Instance.from_arrays(prompts, outputs, memory_limit=limit)


class UniformLengths(_Lengths, name="uniform"):
    """Prompts and outputs have lengths uniform on 1 .. maximum_length ([W25] Section EC.4.2).

    The paper writes U(1, 51) for lengths of at most 50. Here this means the whole numbers 1 .. 50,
    because with lengths of 51 a request could exceed M = 100.

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """

    def law(self) -> Law:
        """Return the uniform law on 1 .. maximum_length, for prompts and outputs."""
        return uniform_law(self.maximum_length)


class NormalLengths(_Lengths, name="normal"):
    """Prompts and outputs have normal lengths, clipped to 1 .. maximum_length ([W25] EC.4.2).

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    mean, standard_deviation : float
        Mean and standard deviation of lengths in tokens, before rounding and clipping.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """

    mean: float = ranged(25.0)
    standard_deviation: float = ranged(8.33, above=0)

    def law(self) -> Law:
        """Return the rounded and clipped normal law, for prompts and outputs."""
        return rounded(normal(self.mean, self.standard_deviation), self.maximum_length)


class BinomialLengths(_Lengths, name="binomial"):
    """Lengths are binomial: 1 + Binomial(maximum_length - 1, probability) ([W25] Section EC.4.2).

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    probability : float, default 0.5
        Success probability of each trial, strictly between 0 and 1.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """

    probability: float = ranged(0.5, above=0, below=1)

    def law(self) -> Law:
        """Return the law 1 + Binomial(maximum_length - 1, probability), for prompts and outputs."""
        return binomial_law(self.probability, self.maximum_length)


class ExponentialLengths(_Lengths, name="exponential"):
    """Prompts and outputs have exponential lengths, clipped to 1 .. maximum_length ([W25] EC.4.2).

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    scale : float, default 5.0
        Mean length before rounding and clipping, > 0.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """

    scale: float = ranged(5.0, above=0)

    def law(self) -> Law:
        """Return the rounded and clipped exponential law, for prompts and outputs."""
        return rounded(exponential(self.scale), self.maximum_length)


class MixedLengths(_Lengths, name="mixed"):
    """Mostly short prompts, some long; exponential outputs ([W25] Section EC.4.2).

    The length of a prompt is lognormal with probability long_share, otherwise exponential. A length
    above maximum_length is replaced by a uniform one between remap_lower and maximum_length, and a
    length below 1 becomes 1. The paper does not state whether the number of lognormal prompts is
    fixed. Here each prompt is drawn independently. Outputs are clipped to 1 .. maximum_length.

    Parameters
    ----------
    n : int, default 200
        Number of requests.
    short_scale : float, default 10.0
        Mean of the exponential prompts, > 0.
    long_share : float, default 0.2
        Probability of a lognormal prompt, strictly between 0 and 1.
    long_median, long_sigma : float
        Median of the lognormal prompts, and the standard deviation of their logarithm.
    remap_lower : int, default 40
        Lower end of the uniform law that replaces prompts above maximum_length.
    output_scale : float, default 5.0
        Mean output before rounding and clipping, > 0.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """

    n: int = ranged(200, minimum=1)
    short_scale: float = ranged(10.0, above=0)
    long_share: float = ranged(0.2, above=0, below=1)
    long_median: float = ranged(40.0, above=0)
    long_sigma: float = ranged(0.25, above=0)
    remap_lower: int = 40
    output_scale: float = ranged(5.0, above=0)

    def laws(self) -> tuple[Law, Law]:
        """Return the mixed law of prompts and the exponential law of outputs."""
        largest = self.maximum_length
        lower = as_integer(self.remap_lower, None, "remap_lower", minimum=1, maximum=largest - 1)
        parts = [exponential(self.short_scale), lognormal(self.long_median, self.long_sigma)]
        prompts = mixture([1 - self.long_share, self.long_share], parts)
        too_long = 1 - prompts(largest)

        def remapped(x: float) -> float:
            return prompts(x) + too_long * min(max((x - lower) / (largest - lower), 0.0), 1.0)

        outputs = rounded(exponential(self.output_scale), largest)
        return rounded(remapped, largest), outputs
