"""Families of [W25] Section EC.4.2: prompts and outputs both vary, all requests at round 0.

The paper's setting is M = 100, lengths up to 50, and 100 requests (200 in the mixed family, Table
EC.1); these are the defaults. It draws real numbers without saying how they become token counts:
here they are rounded to the nearest whole number, then clipped. Prompts and outputs are
independent.
"""

from __future__ import annotations

import numpy as np

from instances.problem.instance import Instance
from instances.validation import as_integer, as_number

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
from .registry import register_generator


def _draw(
    rng: np.random.Generator, n: int, prompt_law: Law, output_law: Law, memory_limit: int
) -> Instance:
    n = as_integer(n, None, "n", minimum=1)
    largest = len(prompt_law) + len(output_law)
    limit = as_integer(memory_limit, None, "memory_limit", minimum=largest)
    prompts = draw_lengths(rng, prompt_law, n)
    outputs = draw_lengths(rng, output_law, n)
    return Instance.from_arrays(prompts, outputs, memory_limit=limit)


def _maximum(maximum_length: int) -> int:
    return as_integer(maximum_length, None, "maximum_length", minimum=2)


@register_generator("uniform")
def uniform(
    rng: np.random.Generator, *, n: int = 100, maximum_length: int = 50, memory_limit: int = 100
) -> Instance:
    """Lengths are uniform on 1 .. maximum_length ([W25] Section EC.4.2).

    The paper writes U(1, 51) for lengths of at most 50: whole numbers below 51. With 51 itself a
    request could exceed M = 100.

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """
    law = uniform_law(_maximum(maximum_length))
    return _draw(rng, n, law, law, memory_limit)


@register_generator("normal")
def normal_lengths(
    rng: np.random.Generator,
    *,
    n: int = 100,
    mean: float = 25.0,
    standard_deviation: float = 8.33,
    maximum_length: int = 50,
    memory_limit: int = 100,
) -> Instance:
    """Lengths are normal, clipped to 1 .. maximum_length ([W25] Section EC.4.2).

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    mean, standard_deviation : float
        Of lengths, before rounding and clipping.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """
    mean = as_number(mean, None, "mean")
    spread = as_number(standard_deviation, None, "standard_deviation", above=0)
    law = rounded(normal(mean, spread), _maximum(maximum_length))
    return _draw(rng, n, law, law, memory_limit)


@register_generator("binomial")
def binomial_lengths(
    rng: np.random.Generator,
    *,
    n: int = 100,
    probability: float = 0.5,
    maximum_length: int = 50,
    memory_limit: int = 100,
) -> Instance:
    """Lengths are 1 + Binomial(maximum_length - 1, probability) ([W25] Section EC.4.2).

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    probability : float, default 0.5
        Of each trial, strictly between 0 and 1.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """
    probability = as_number(probability, None, "probability", above=0, below=1)
    law = binomial_law(probability, _maximum(maximum_length))
    return _draw(rng, n, law, law, memory_limit)


@register_generator("exponential")
def exponential_lengths(
    rng: np.random.Generator,
    *,
    n: int = 100,
    scale: float = 5.0,
    maximum_length: int = 50,
    memory_limit: int = 100,
) -> Instance:
    """Lengths are exponential, clipped to 1 .. maximum_length ([W25] Section EC.4.2).

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
    scale = as_number(scale, None, "scale", above=0)
    law = rounded(exponential(scale), _maximum(maximum_length))
    return _draw(rng, n, law, law, memory_limit)


@register_generator("mixed")
def mixed(
    rng: np.random.Generator,
    *,
    n: int = 200,
    short_scale: float = 10.0,
    long_share: float = 0.2,
    long_median: float = 40.0,
    long_sigma: float = 0.25,
    remap_lower: int = 40,
    output_scale: float = 5.0,
    maximum_length: int = 50,
    memory_limit: int = 100,
) -> Instance:
    """Mostly short prompts, some long; exponential outputs ([W25] Section EC.4.2).

    A prompt is exponential, or with probability long_share lognormal; one that exceeds
    maximum_length is replaced by a uniform number between remap_lower and maximum_length. The
    paper does not say whether the shares are exact: here each prompt is drawn by itself. Below 1
    prompts are clipped, like outputs.

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
        Where the uniform law of the prompts that were too long begins.
    output_scale : float, default 5.0
        Mean output before rounding and clipping, > 0.
    maximum_length : int, default 50
        Largest prompt and largest output.
    memory_limit : int, default 100
        M, at least 2 maximum_length.
    """
    largest = _maximum(maximum_length)
    share = as_number(long_share, None, "long_share", above=0, below=1)
    lower = as_integer(remap_lower, None, "remap_lower", minimum=1, maximum=largest - 1)
    prompts = mixture(
        [1 - share, share],
        [
            exponential(as_number(short_scale, None, "short_scale", above=0)),
            lognormal(
                as_number(long_median, None, "long_median", above=0),
                as_number(long_sigma, None, "long_sigma", above=0),
            ),
        ],
    )
    too_long = 1 - prompts(largest)

    def remapped(x: float) -> float:
        return prompts(x) + too_long * min(max((x - lower) / (largest - lower), 0.0), 1.0)

    output_scale = as_number(output_scale, None, "output_scale", above=0)
    outputs = rounded(exponential(output_scale), largest)
    return _draw(rng, n, rounded(remapped, largest), outputs, memory_limit)
