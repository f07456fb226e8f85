"""Families of instances with the output distributions of [C25].

All requests arrive at once with the same prompt length. The metadata of an instance has, under
``"output_interval"``, the interval of its output lengths, which interval predictions give to
policies.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH, Instance
from instances.validation import as_integer, ranged

from .length_laws import draw_lengths
from .registry import Family


def equal_prompts(
    outputs: list[int] | np.ndarray, prompt_length: int, memory_limit: int, lower: int, upper: int
) -> Instance:
    """Make an instance of requests at time 0 with equal prompts and outputs in an interval.

    Parameters
    ----------
    outputs : list[int] or int64 array
        Output length of each request, in tokens.
    prompt_length, memory_limit : int
        s of every request, and M, at least s + ``upper``.
    lower, upper : int
        Interval of the output lengths, stored in the metadata as ``"output_interval"``.
    """
    limit = as_integer(memory_limit, None, "memory_limit", minimum=prompt_length + upper)
    metadata: dict[str, object] = {"output_interval": [lower, upper]}
    if prompt_length == 0:
        metadata[ALLOW_ZERO_PROMPT_LENGTH] = True
    prompts = [prompt_length] * len(outputs)
    return Instance.from_arrays(prompts, outputs, memory_limit=limit, metadata=metadata)


class TwoPoint(Family, name="two-point"):
    """Every output is the lower or the upper length ([C25] Section 5.1).

    Parameters
    ----------
    n : int, default 1000
        Number of requests.
    lower, upper : int
        The two output lengths.
    long_share : float or None, default None
        Probability of the upper length. None takes lower / (lower + upper), for which the bound of
        [C25] Theorem 5.1 is attained if prompts are empty.
    prompt_length : int, default 0
        Prompt length of every request.
    memory_limit : int, default 200
        Memory limit M.
    """

    n: int = ranged(1000, minimum=1)
    lower: int = ranged(2, minimum=1)
    upper: int = 20
    long_share: float | None = ranged(None, above=0, below=1)
    prompt_length: int = ranged(0, minimum=0)
    memory_limit: int = 200

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw independent outputs; return the instance."""
        lower, upper = self.lower, as_integer(self.upper, None, "upper", minimum=self.lower)
        share = lower / (lower + upper) if self.long_share is None else self.long_share
        outputs = np.where(rng.random(self.n) < share, upper, lower)
        return equal_prompts(outputs, self.prompt_length, self.memory_limit, lower, upper)


class Geometric(Family, name="geometric"):
    """Geometric outputs: P(o = k) = (1 - q) q^(k-1), given o <= upper ([C25] Section 5.2).

    Parameters
    ----------
    n : int
        Number of requests.
    q : float
        Decay, strictly between 0 and 1.
    upper : int or None
        Largest output length; None takes M - s.
    prompt_length : int
        s of every request.
    memory_limit : int
        M.
    """

    n: int = ranged(1000, minimum=1)
    q: float = ranged(0.8, above=0, below=1)
    upper: int | None = ranged(None, minimum=1)
    prompt_length: int = ranged(0, minimum=0)
    memory_limit: int = 200
    linear: ClassVar[bool] = False

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw independent outputs; return the instance."""
        prompt, upper = self.prompt_length, self.upper
        if upper is None:
            limit = as_integer(self.memory_limit, None, "memory_limit", minimum=prompt + 1)
            upper = limit - prompt
        lengths = np.arange(1, upper + 1)
        law = np.power(self.q, lengths - 1.0) * (lengths if self.linear else 1)
        outputs = draw_lengths(rng, law, self.n)
        return equal_prompts(outputs, prompt, self.memory_limit, 1, upper)


class LinearlyWeightedGeometric(Geometric, name="linearly-weighted-geometric"):
    """Outputs with P(o = k) = k (1 - q)^2 q^(k-1), given o <= upper ([C25] Section 5.3).

    Parameters
    ----------
    n : int
        Number of requests.
    q : float
        Decay, strictly between 0 and 1.
    upper : int or None
        Largest output length; None takes M - s.
    prompt_length : int
        s of every request.
    memory_limit : int
        M.
    """

    linear = True


class AMaxTrap(Family, name="a-max-trap"):
    """Outputs of two lengths, in the numbers of the proof against A_max ([C25] Theorem 3.4).

    There are a * upper requests with the lower output length, and b * lower requests with the upper
    one. Here b = scale, and a = b alpha^(1/2), rounded, with alpha = lower / upper. Prompts are
    empty and M = lower * upper. Nothing is random: the short requests come first, and A_max draws
    its own order. The ratio of A_max on this instance is `online.theory.a_max_two_point_ratio`,
    which is less than the theorem states.

    Parameters
    ----------
    lower, upper : int
        The two output lengths; alpha is lower / upper.
    scale : int, default 20
        The number b. The ratio tends to its limit as b grows.
    balance : float or None, default None
        Value of a / b. None takes alpha^(1/2). The ratio is largest for 1 + sqrt(2 + 2 alpha).
    """

    lower: int = ranged(4, minimum=1)
    upper: int = 16
    scale: int = ranged(20, minimum=1)
    balance: float | None = ranged(None, above=0)

    def draw(self, rng: np.random.Generator) -> Instance:
        """Return the instance, which is not random. Short requests come first."""
        lower, upper = self.lower, as_integer(self.upper, None, "upper", minimum=self.lower)
        balance = math.sqrt(lower / upper) if self.balance is None else self.balance
        a = max(1, round(self.scale * balance))
        outputs = np.repeat([lower, upper], [a * upper, self.scale * lower])
        return equal_prompts(outputs, 0, lower * upper, lower, upper)
