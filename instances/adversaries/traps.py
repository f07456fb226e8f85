"""Fixed instances on which a rule of the papers does badly, or provably well.

Everything arrives at time 0 and nothing is random. ``metadata["construction"]`` says which sizes
were taken.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from instances.errors import InvalidValueError
from instances.generators.registry import register_generator
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH, Instance
from instances.validation import as_integer

TrapSizes = Literal["printed", "balanced", "steep"]


def _two_types(
    first: tuple[int, int, int], second: tuple[int, int, int], memory_limit: int, sizes: str
) -> Instance:
    """Counts, prompts and outputs of two types, the first type first."""
    (x, s, o), (y, t, p) = first, second
    metadata = {"construction": {"sizes": sizes, "first_type": x, "second_type": y}}
    return Instance.from_arrays(
        [s] * x + [t] * y, [o] * x + [p] * y, memory_limit=memory_limit, metadata=metadata
    )


def _checked_sizes(sizes: str) -> None:
    if sizes not in get_args(TrapSizes):
        known = ", ".join(get_args(TrapSizes))
        raise InvalidValueError(None, "sizes", sizes, f"is not one of {known}")


def _power_of_memory(memory_limit: int) -> int:
    """floor(M^1.25)."""
    return math.isqrt(math.isqrt(memory_limit**5))


@register_generator("mc-sf-trap")
def mc_sf_trap(
    rng: np.random.Generator, *, memory_limit: int = 256, sizes: TrapSizes = "printed"
) -> Instance:
    """Short outputs with long prompts first: MC-SF's mistake ([W25] Theorem 1).

    X requests (s = K - 1, o = 1), which MC-SF serves first, then Y requests (s = 1, o = 2), which
    should have gone first. With R = floor(sqrt(M)):

    * ``"printed"``: K = R, X = M, Y = M R, the proof's instance. MC-SF / (the proof's other
      schedule) tends to 4/3 there, because both contain (2M/3) sum_{j <= 3Y/M} j = 3 Y^2 / M =
      3 M^2, which the proof evaluates as 3 M^1.25;
    * ``"balanced"``: K and X as printed, Y = floor(M^1.25), which weighs both types alike: the
      ratio grows as M^(1/4), the most that K = sqrt(M) allows;
    * ``"steep"``: K = M, X = 8 R, Y = floor(X sqrt(M/6)): it grows as M^(1/2), the theorem's rate.

    Parameters
    ----------
    memory_limit : int, default 256
        M >= 4.
    sizes : TrapSizes, default "printed"
        As above.
    """
    _checked_sizes(sizes)
    limit = as_integer(memory_limit, None, "memory_limit", minimum=4)
    root = math.isqrt(limit)
    if sizes == "steep":
        long_prompts, width = 8 * root, limit
        others = math.isqrt(long_prompts * long_prompts * limit // 6)
    else:
        long_prompts, width = limit, root
        others = limit * root if sizes == "printed" else _power_of_memory(limit)
    return _two_types((long_prompts, width - 1, 1), (others, 1, 2), limit, sizes)


@register_generator("mc-sf-total-trap")
def mc_sf_total_trap(
    rng: np.random.Generator, *, memory_limit: int = 256, sizes: TrapSizes = "printed"
) -> Instance:
    """Long outputs with short prompts first: MC-SF2's mistake ([W25] Theorem EC.1).

    X requests (s = 1, o = K - 1), which `mc-sf-total` serves first, then Y requests (s = K,
    o = 1), which should have gone first. With R = floor(sqrt(M)):

    * ``"printed"``: K = R, X = M, Y = M R, the proof's instance. The ratio to the proof's other
      schedule tends to 3 there, because both contain sqrt(M) sum_{j <= Y/sqrt(M)} j = M^2.5 / 2,
      which the proof evaluates as M^1.75 / 2. (A request of the second type holds K + 1 tokens,
      so R - 1 of them run together where M is a square, not R.)
    * ``"balanced"``: K and X as printed, Y = floor(M^1.25): the ratio grows as M^(1/4), the most
      that K = sqrt(M) allows;
    * ``"steep"``: K = M - 1, X = 8, Y = 8 R: it grows as M^(1/2), the theorem's rate.

    Parameters
    ----------
    memory_limit : int, default 256
        M >= 4.
    sizes : TrapSizes, default "printed"
        As above.
    """
    _checked_sizes(sizes)
    limit = as_integer(memory_limit, None, "memory_limit", minimum=4)
    root = math.isqrt(limit)
    if sizes == "steep":
        long_outputs, width, others = 8, limit - 1, 8 * root
    else:
        long_outputs, width = limit, root
        others = limit * root if sizes == "printed" else _power_of_memory(limit)
    return _two_types((long_outputs, 1, width - 1), (others, width, 1), limit, sizes)


@register_generator("identical-requests")
def identical_requests(
    rng: np.random.Generator,
    *,
    n: int = 100,
    prompt_length: int = 5,
    output_length: int = 10,
    memory_limit: int = 100,
) -> Instance:
    """n equal requests at time 0, where MC-SF is within 4 of the optimum ([J25] Theorem 4.3).

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    prompt_length, output_length : int
        s >= 1 and o of each.
    memory_limit : int, default 100
        M; the theorem asks for M >= 2 (s + o), and so does this.
    """
    n = as_integer(n, None, "n", minimum=1)
    prompt = as_integer(prompt_length, None, "prompt_length", minimum=1)
    output = as_integer(output_length, None, "output_length", minimum=1)
    limit = as_integer(memory_limit, None, "memory_limit", minimum=2 * (prompt + output))
    return Instance.from_arrays([prompt] * n, [output] * n, memory_limit=limit)


@register_generator("two-point-worst-case")
def two_point_worst_case(
    rng: np.random.Generator,
    *,
    lower: int = 2,
    upper: int = 8,
    scale: int = 50,
    memory_limit: int = 200,
    prompt_length: int = 0,
) -> Instance:
    """Two lengths in the shares that cost A_random most ([C25] Theorem 8.6).

    ``scale`` times ``upper`` requests of the lower length, then ``scale`` times ``lower`` of the
    upper one. If a request took its peak o for all its o rounds, as the proof counts (s = 0), a
    random order would cost (1 + z)(alpha^2 + z) / (alpha^2 + 2 alpha^2 z + z^2) times shortest
    first for z long requests to a short one, alpha = lower / upper: at z = alpha the theorem's
    (1 + 1/alpha) / 2. What is measured is less, because requests that start at different times
    hold less than their peaks together. Unlike `two-point` nothing is drawn.

    Parameters
    ----------
    lower, upper : int
        The two lengths.
    scale : int, default 50
        The limit is met as it grows with M.
    memory_limit : int, default 200
        M.
    prompt_length : int, default 0
        s of every request; the shares are the worst for 0.
    """
    lower = as_integer(lower, None, "lower", minimum=1)
    upper = as_integer(upper, None, "upper", minimum=lower)
    scale = as_integer(scale, None, "scale", minimum=1)
    prompt = as_integer(prompt_length, None, "prompt_length", minimum=0)
    limit = as_integer(memory_limit, None, "memory_limit", minimum=prompt + upper)
    outputs = [lower] * (scale * upper) + [upper] * (scale * lower)
    metadata: dict[str, object] = {"output_interval": [lower, upper]}
    if prompt == 0:
        metadata[ALLOW_ZERO_PROMPT_LENGTH] = True
    return Instance.from_arrays(
        [prompt] * len(outputs), outputs, memory_limit=limit, metadata=metadata
    )
