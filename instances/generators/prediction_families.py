"""Output distributions of [C25]: two-point, geometric, linearly weighted geometric, A_max's trap.

All requests arrive at once with the same prompt. Each instance says in its metadata, under
``"output_interval"``, which interval its outputs are from: what an interval prediction tells.
"""

from __future__ import annotations

import math

import numpy as np

from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH, Instance
from instances.validation import as_integer, as_number

from .length_laws import draw_lengths
from .registry import register_generator


def _equal_prompts(
    outputs: np.ndarray, prompt_length: int, memory_limit: int, lower: int, upper: int
) -> Instance:
    prompt = as_integer(prompt_length, None, "prompt_length", minimum=0)
    limit = as_integer(memory_limit, None, "memory_limit", minimum=prompt + upper)
    metadata = {"output_interval": [lower, upper]}
    if prompt == 0:
        metadata[ALLOW_ZERO_PROMPT_LENGTH] = True  # type: ignore[assignment]
    return Instance.from_arrays(
        [prompt] * len(outputs), outputs, memory_limit=limit, metadata=metadata
    )


@register_generator("two-point")
def two_point(
    rng: np.random.Generator,
    *,
    n: int = 1000,
    lower: int = 2,
    upper: int = 20,
    long_share: float | None = None,
    prompt_length: int = 0,
    memory_limit: int = 200,
) -> Instance:
    """Every output is the lower or the upper length ([C25] Section 5.1).

    Parameters
    ----------
    n : int, default 1000
        Number of requests.
    lower, upper : int
        The two lengths.
    long_share : float or None, default None
        Probability of the upper length; None takes lower / (lower + upper), where the bound of
        [C25] Theorem 5.1 is attained for s = 0.
    prompt_length : int, default 0
        s of every request.
    memory_limit : int, default 200
        M.
    """
    n = as_integer(n, None, "n", minimum=1)
    lower = as_integer(lower, None, "lower", minimum=1)
    upper = as_integer(upper, None, "upper", minimum=lower)
    if long_share is None:
        share = lower / (lower + upper)
    else:
        share = as_number(long_share, None, "long_share", above=0, below=1)
    outputs = np.where(rng.random(n) < share, upper, lower)
    return _equal_prompts(outputs, prompt_length, memory_limit, lower, upper)


def _register_geometric(name: str, law: str, section: str, *, linear: bool) -> None:
    def generator(
        rng: np.random.Generator,
        *,
        n: int = 1000,
        q: float = 0.8,
        upper: int | None = None,
        prompt_length: int = 0,
        memory_limit: int = 200,
    ) -> Instance:
        n = as_integer(n, None, "n", minimum=1)
        q = as_number(q, None, "q", above=0, below=1)
        prompt = as_integer(prompt_length, None, "prompt_length", minimum=0)
        if upper is None:
            upper = as_integer(memory_limit, None, "memory_limit", minimum=prompt + 1) - prompt
        upper = as_integer(upper, None, "upper", minimum=1)
        lengths = np.arange(1, upper + 1)
        outputs = draw_lengths(rng, np.power(q, lengths - 1.0) * (lengths if linear else 1), n)
        return _equal_prompts(outputs, prompt, memory_limit, 1, upper)

    generator.__doc__ = f"""P(o = k) = {law}, given o <= upper ([C25] Section {section}).

    Parameters
    ----------
    n : int
        Number of requests.
    q : float
        Decay, strictly between 0 and 1.
    upper : int or None
        Largest length; None takes M - s.
    prompt_length : int
        s of every request.
    memory_limit : int
        M.
    """
    register_generator(name)(generator)


_register_geometric("geometric", "(1 - q) q^(k-1)", "5.2", linear=False)
_register_geometric("linearly-weighted-geometric", "k (1 - q)^2 q^(k-1)", "5.3", linear=True)


@register_generator("a-max-trap")
def a_max_trap(
    rng: np.random.Generator,
    *,
    lower: int = 4,
    upper: int = 16,
    scale: int = 20,
    balance: float | None = None,
) -> Instance:
    """Two lengths in the shares of [C25] Theorem 3.4's proof, against A_max.

    s = 0, M = lower upper; a upper requests of the lower length and b lower of the upper one,
    with b = scale and a = b alpha^(1/2) rounded, alpha = lower / upper. Nothing is random: the
    shorts come first, and A_max draws its own order. What A_max loses here is
    `online.theory.a_max_two_point_ratio`, which is less than the theorem says.

    Parameters
    ----------
    lower, upper : int
        The two lengths; alpha is their ratio.
    scale : int, default 20
        b; the ratio is met as it grows.
    balance : float or None, default None
        A / b instead of alpha^(1/2); 1 + sqrt(2 + 2 alpha) is the worst.
    """
    lower = as_integer(lower, None, "lower", minimum=1)
    upper = as_integer(upper, None, "upper", minimum=lower)
    b = as_integer(scale, None, "scale", minimum=1)
    if balance is None:
        balance = math.sqrt(lower / upper)
    else:
        balance = as_number(balance, None, "balance", above=0)
    a = max(1, round(b * balance))
    outputs = np.repeat([lower, upper], [a * upper, b * lower])
    return _equal_prompts(outputs, 0, lower * upper, lower, upper)
