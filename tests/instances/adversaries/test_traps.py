"""The fixed constructions, against the sizes in the papers."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from instances import Instance, generate


def types(instance: Instance) -> dict[tuple[int, int], int]:
    assert not instance.arrival_times.any()
    return dict(Counter((q.prompt_length, q.output_length) for q in instance))


def test_the_printed_sizes() -> None:
    # [W25] Theorems 1 and EC.1 at M = 16: sqrt(M) = 4, M^1.5 = 64.
    assert types(generate("mc-sf-trap", memory_limit=16)) == {(3, 1): 16, (1, 2): 64}
    assert types(generate("mc-sf-total-trap", memory_limit=16)) == {(1, 3): 16, (4, 1): 64}
    # The root is rounded down.
    assert types(generate("mc-sf-trap", memory_limit=24)) == {(3, 1): 24, (1, 2): 96}


@given(st.integers(4, 200))
def test_the_other_sizes(limit: int) -> None:
    root = math.isqrt(limit)
    balanced = types(generate("mc-sf-trap", memory_limit=limit, sizes="balanced"))
    y = balanced[1, 2]
    assert balanced == {(root - 1, 1): limit, (1, 2): y}
    assert y**4 <= limit**5 < (y + 1) ** 4
    assert types(generate("mc-sf-total-trap", memory_limit=limit, sizes="balanced")) == (
        {(1, root - 1): limit, (root, 1): y} if (1, root - 1) != (root, 1) else {(1, 1): limit + y}
    )
    steep = types(generate("mc-sf-trap", memory_limit=limit, sizes="steep"))
    x, y = steep[limit - 1, 1], steep[1, 2]
    assert x == 8 * root
    assert 6 * y**2 <= x**2 * limit < 6 * (y + 1) ** 2
    steep = types(generate("mc-sf-total-trap", memory_limit=limit, sizes="steep"))
    assert steep == {(1, limit - 2): 8, (limit - 1, 1): 8 * root}


def test_identical_requests() -> None:
    """[J25] Theorem 4.3."""
    drawn = generate("identical-requests", n=7, prompt_length=2, output_length=3, memory_limit=10)
    assert types(drawn) == {(2, 3): 7}


def test_two_point_worst_case() -> None:
    """[C25] Theorem 8.6."""
    drawn = generate("two-point-worst-case", lower=2, upper=6, scale=5, memory_limit=9)
    # z = longs / shorts = alpha = lower / upper.
    assert types(drawn) == {(0, 2): 30, (0, 6): 10}
    assert drawn.metadata["output_interval"] == [2, 6]
    with_prompts = generate("two-point-worst-case", prompt_length=1)
    assert set(with_prompts.prompt_lengths.tolist()) == {1}
