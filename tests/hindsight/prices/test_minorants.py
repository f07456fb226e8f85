"""Seconds of a round in fractions, beside those that batch times give in floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from instances.batch_time import BatchStretch, BatchTime
from instances.batch_time.exact import exact_seconds
from online import AffineTime, IterationTime, TiledTime


def one_round(rng: np.random.Generator) -> BatchStretch:
    """A round of decodes, of prompts that are completed and of chunks, or of some of these."""
    requests, held = int(rng.integers(0, 5)), int(rng.integers(0, 9))
    new, chunks = int(rng.integers(0, requests + 1)), int(rng.integers(0, 2) * rng.integers(1, 9))
    squares, past, chunk_squares, chunk_past = rng.integers(1, 50, 4).tolist()
    fresh = int(rng.integers(new, 9)) if new else 0
    memory = held + int(rng.integers(requests, 30))
    prompts = (squares, past) if new else (0, 0)
    parts = (chunk_squares, chunk_past) if chunks else (0, 0)
    return BatchStretch(1, requests, fresh, new, memory, requests, chunks, held, *prompts, *parts)


@pytest.mark.parametrize(
    "batch_time",
    [
        AffineTime(0.5, 0.125, 0.25),
        IterationTime(0.5, 0.125),
        TiledTime([2, 6, 8], [0.5, 1.5, 4.0], kv_token=0.25),
        TiledTime([4, 8, 12], [2.0, 1.0, 5.0], 4),
        TiledTime(
            [4, 8], [2.0, 3.0], 4, kernel=64.0, kv_token=0.25, prompt_square=0.5, prompt_past=0.125
        ),
        AffineTime(0.75),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_round_lasts_what_the_batch_time_says(batch_time: BatchTime) -> None:
    """Every coefficient is a whole number of eighths: no float is rounded."""
    seconds = exact_seconds(batch_time)
    assert seconds is not None
    rng = np.random.default_rng(0)
    for stretch in [one_round(rng) for _ in range(300)]:
        assert seconds(stretch) == Fraction(batch_time.durations(stretch).item()), stretch
