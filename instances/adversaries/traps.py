"""Instances without random choices on which a policy of the papers does badly, or provably well.

All requests arrive at time 0 and nothing is random. ``metadata["construction"]`` records the sizes
of an instance.
"""

from __future__ import annotations

import math

import numpy as np

from instances.generators.prediction_families import equal_prompts
from instances.generators.registry import Family
from instances.problem.instance import Instance
from instances.validation import as_integer, chosen, ranged


class _Trap(Family):
    memory_limit: int = ranged(256, minimum=4)
    sizes: str = chosen("printed", "balanced", "steep")

    def draw(self, rng: np.random.Generator) -> Instance:
        """Return the instance, which is not random. Requests of the first type come first."""
        limit, root = self.memory_limit, math.isqrt(self.memory_limit)
        # ``others`` is Y, the number of requests of the second type: floor(M^1.25) for "balanced".
        others = limit * root if self.sizes == "printed" else math.isqrt(math.isqrt(limit**5))
        sizes = self.steep(root) if self.sizes == "steep" else (limit, root, others)
        (x, s, o), (y, t, p) = self.types(*sizes)
        construction = {"sizes": self.sizes, "first_type": x, "second_type": y}
        return Instance.from_arrays(
            [s] * x + [t] * y,
            [o] * x + [p] * y,
            memory_limit=limit,
            metadata={"construction": construction},
        )

    def types(self, first: int, width: int, others: int) -> tuple[tuple[int, int, int], ...]:
        """Return (number of requests, prompt length, output length) of both types.

        ``first``, ``width`` and ``others`` are X, K and Y, defined in the docstring of the trap.
        """
        raise NotImplementedError

    def steep(self, root: int) -> tuple[int, int, int]:
        """Return X, K and Y, defined in the docstring of the trap, for ``sizes="steep"``.

        ``root`` is floor(sqrt(M)).
        """
        raise NotImplementedError


class McSfTrap(_Trap, name="mc-sf-trap"):
    """Bad instance for MC-SF: it serves short outputs with long prompts first ([W25] Theorem 1).

    s is the prompt length, o the output length. MC-SF first serves X requests with s = K - 1 and
    o = 1, then Y requests with s = 1 and o = 2. The opposite order is better. With
    R = floor(sqrt(M)):

    * ``"printed"``: K = R, X = M, Y = M R, as in the proof. The ratio of MC-SF to the schedule of
      the proof tends to only 4/3. The reason is that both total latencies contain (2M/3)
      sum_{j <= 3Y/M} j = 3 Y^2 / M = 3 M^2, which the proof evaluates as 3 M^1.25.
    * ``"balanced"``: K = R, X = M, Y = floor(M^1.25). Both types contribute about equally, and the
      ratio grows as M^(1/4), the most that K = sqrt(M) allows.
    * ``"steep"``: K = M, X = 8 R, Y = floor(X sqrt(M/6)). The ratio grows as M^(1/2), as the
      theorem states.

    Parameters
    ----------
    memory_limit : int, default 256
        M >= 4.
    sizes : {"printed", "balanced", "steep"}
        Choice of K, X and Y, as above.
    """

    def types(self, first: int, width: int, others: int) -> tuple[tuple[int, int, int], ...]:
        """Return (number, s, o) of both types: X with long prompts, then Y with o = 2."""
        return (first, width - 1, 1), (others, 1, 2)

    def steep(self, root: int) -> tuple[int, int, int]:
        """Return X = 8 R, K = M and Y = floor(X sqrt(M/6)), where R = floor(sqrt(M))."""
        first, limit = 8 * root, self.memory_limit
        return first, limit, math.isqrt(first * first * limit // 6)


class McSfTotalTrap(_Trap, name="mc-sf-total-trap"):
    """Bad instance for MC-SF2: it serves long outputs with short prompts first ([W25] EC.1).

    s is the prompt length, o the output length. MC-SF2 (`mc-sf-total`) first serves X requests with
    s = 1 and o = K - 1, then Y requests with s = K and o = 1. The opposite order is better. With
    R = floor(sqrt(M)):

    * ``"printed"``: K = R, X = M, Y = M R, as in the proof of Theorem EC.1. The ratio to the
      schedule of the proof tends to only 3. The reason is that both total latencies contain sqrt(M)
      sum_{j <= Y/sqrt(M)} j = M^2.5 / 2, which the proof evaluates as M^1.75 / 2. (A request of the
      second type holds K + 1 tokens. So if M is a square, R - 1 of them run together, and not R.)
    * ``"balanced"``: K = R, X = M, Y = floor(M^1.25). The ratio grows as M^(1/4), the most that
      K = sqrt(M) allows.
    * ``"steep"``: K = M - 1, X = 8, Y = 8 R. The ratio grows as M^(1/2), as the theorem states.

    Parameters
    ----------
    memory_limit : int, default 256
        M >= 4.
    sizes : {"printed", "balanced", "steep"}
        Choice of K, X and Y, as above.
    """

    def types(self, first: int, width: int, others: int) -> tuple[tuple[int, int, int], ...]:
        """Return (number, s, o) of both types: X with long outputs, then Y with long prompts."""
        return (first, 1, width - 1), (others, width, 1)

    def steep(self, root: int) -> tuple[int, int, int]:
        """Return X = 8, K = M - 1 and Y = 8 R, where R = floor(sqrt(M)) = ``root``."""
        return 8, self.memory_limit - 1, 8 * root


class IdenticalRequests(Family, name="identical-requests"):
    """n equal requests at time 0: MC-SF's ratio to the optimum is at most 4 ([J25] Theorem 4.3).

    Parameters
    ----------
    n : int, default 100
        Number of requests.
    prompt_length, output_length : int
        s >= 1 and o >= 1 of each request.
    memory_limit : int, default 100
        M >= 2 (s + o), as the theorem requires.
    """

    n: int = ranged(100, minimum=1)
    prompt_length: int = ranged(5, minimum=1)
    output_length: int = ranged(10, minimum=1)
    memory_limit: int = 100

    def draw(self, rng: np.random.Generator) -> Instance:
        """Make the instance, without any randomness."""
        prompt, output = self.prompt_length, self.output_length
        least = 2 * (prompt + output)
        limit = as_integer(self.memory_limit, None, "memory_limit", minimum=least)
        return Instance.from_arrays([prompt] * self.n, [output] * self.n, memory_limit=limit)


class TwoPointWorstCase(Family, name="two-point-worst-case"):
    """Outputs of two lengths in the proportion worst for the policy A_random ([C25] Theorem 8.6).

    There are ``scale * upper`` requests of the lower length, then ``scale * lower`` of the upper
    one. Let z be the number of long requests per short one, and alpha = lower / upper. The proof
    has empty prompts and counts the peak of a request in all its rounds. A random order then costs
    (1 + z)(alpha^2 + z) / (alpha^2 + 2 alpha^2 z + z^2) times as much as shortest first. At
    z = alpha this is the ratio (1 + 1/alpha) / 2 of the theorem. Measured ratios are smaller,
    because requests that start at different times do not all hold their peaks at once. Unlike in
    `two-point` nothing is random.

    Parameters
    ----------
    lower, upper : int
        The two output lengths.
    scale : int, default 50
        Factor of the numbers of short and of long requests. If it grows together with M, ratios
        tend to their limits.
    memory_limit : int, default 200
        M.
    prompt_length : int, default 0
        Prompt length of every request. The proportion is the worst one for 0.
    """

    lower: int = ranged(2, minimum=1)
    upper: int = 8
    scale: int = ranged(50, minimum=1)
    memory_limit: int = 200
    prompt_length: int = ranged(0, minimum=0)

    def draw(self, rng: np.random.Generator) -> Instance:
        """Make the instance, without any randomness; short requests come first."""
        lower, upper = self.lower, as_integer(self.upper, None, "upper", minimum=self.lower)
        outputs = [lower] * (self.scale * upper) + [upper] * (self.scale * lower)
        return equal_prompts(outputs, self.prompt_length, self.memory_limit, lower, upper)
