"""Fixed instances on which a rule of the papers does badly, or provably well.

Everything arrives at time 0 and nothing is random. ``metadata["construction"]`` says which sizes
were taken.
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
        """Draw nothing: the first type comes first."""
        limit, root = self.memory_limit, math.isqrt(self.memory_limit)
        # floor(M^1.25) where it is balanced.
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
        """Count, prompt and output of both types: X, K and Y of the class give them."""
        raise NotImplementedError

    def steep(self, root: int) -> tuple[int, int, int]:
        """Return X, K and Y for ``sizes="steep"``; the docstring of each trap defines them."""
        raise NotImplementedError


class McSfTrap(_Trap, name="mc-sf-trap"):
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
    sizes : {"printed", "balanced", "steep"}
        As above.
    """

    def types(self, first: int, width: int, others: int) -> tuple[tuple[int, int, int], ...]:
        """X requests with long prompts, then Y short ones."""
        return (first, width - 1, 1), (others, 1, 2)

    def steep(self, root: int) -> tuple[int, int, int]:
        """X = 8 R, K = M, Y = floor(X sqrt(M/6))."""
        first, limit = 8 * root, self.memory_limit
        return first, limit, math.isqrt(first * first * limit // 6)


class McSfTotalTrap(_Trap, name="mc-sf-total-trap"):
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
    sizes : {"printed", "balanced", "steep"}
        As above.
    """

    def types(self, first: int, width: int, others: int) -> tuple[tuple[int, int, int], ...]:
        """X requests with long outputs, then Y with long prompts."""
        return (first, 1, width - 1), (others, width, 1)

    def steep(self, root: int) -> tuple[int, int, int]:
        """X = 8, K = M - 1, Y = 8 R."""
        return 8, self.memory_limit - 1, 8 * root


class IdenticalRequests(Family, name="identical-requests"):
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

    n: int = ranged(100, minimum=1)
    prompt_length: int = ranged(5, minimum=1)
    output_length: int = ranged(10, minimum=1)
    memory_limit: int = 100

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw nothing."""
        prompt, output = self.prompt_length, self.output_length
        least = 2 * (prompt + output)
        limit = as_integer(self.memory_limit, None, "memory_limit", minimum=least)
        return Instance.from_arrays([prompt] * self.n, [output] * self.n, memory_limit=limit)


class TwoPointWorstCase(Family, name="two-point-worst-case"):
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

    lower: int = ranged(2, minimum=1)
    upper: int = 8
    scale: int = ranged(50, minimum=1)
    memory_limit: int = 200
    prompt_length: int = ranged(0, minimum=0)

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw nothing: the shorts come first."""
        lower, upper = self.lower, as_integer(self.upper, None, "upper", minimum=self.lower)
        outputs = [lower] * (self.scale * upper) + [upper] * (self.scale * lower)
        return equal_prompts(outputs, self.prompt_length, self.memory_limit, lower, upper)
