"""Fits of tables in tiles, and measurements in files."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from instances import FileFormatError, InvalidValueError
from instances.batch_time import BatchStretch, BatchTime
from online import TiledTime
from online.batch_time import Measurements, fit_tiled_time

TILED = TiledTime(
    [8, 32, 64, 128, 136, 512, 1024, 4096],
    [0.5, 0.4, 0.6, 0.7, 0.9, 1.5, 2.5, 9.0],
    8,
    kernel=0.0625,
    kv_token=1e-5,
    prompt_square=1e-7,
    prompt_past=2e-7,
)


DECODES = (1, 8, 32, 48, 64, 96, 128, 192, 256)
KV_TOKENS = (32, 128, 512)
PROMPTS = (16, 64, 128, 200, 256, 384, 512, 700, 1024, 1500, 2048, 3000, 4096)
PAST = (0, 512)
"""Decoding requests, KV tokens of each, prompt tokens, and tokens processed before."""


def rounds_of(model: BatchTime) -> Measurements:
    """Rounds of every regime under a batch time: few and many decodes, prompts, both."""
    decoding = [(count, count * each) for count in DECODES for each in KV_TOKENS]
    prompts = [(x, y) for x in PROMPTS for y in PAST]
    pairs = [(one, (0, 0)) for one in decoding] + [((0, 0), one) for one in prompts]
    pairs += product(decoding[1::4], prompts[::2])
    rows = []
    for (requests, kv_tokens), (x, y) in pairs:
        memory = kv_tokens + x + y
        past = {"chunk_squares": x * x, "chunk_past": x * y}
        seconds = model.durations(BatchStretch(1, requests, 0, 0, memory, 0, x, **past))[0]
        rows.append((requests + x, memory, seconds, requests, x * x, x * y))
    return Measurements(*np.array(rows, dtype=np.float64).T)


def of(*rows: tuple[float, ...]) -> Measurements:
    """Tokens, KV tokens, seconds, decodes."""
    return Measurements(*np.array(rows, dtype=np.float64).T)


def test_a_fit_in_tiles_finds_what_the_rounds_came_from() -> None:
    data = rounds_of(TILED)
    # Between entries the table is a line: of those chosen here some are none of its own.
    model = fit_tiled_time(data, [8, 32, 48, 64, 96, 128, 136, 512, 1024, 4096], 8)
    assert model.at(70) == pytest.approx(TILED.at(70))
    assert model.at(5000) == pytest.approx(TILED.at(5000))
    for name in ("kernel", "kv_token", "prompt_square", "prompt_past"):
        assert getattr(model, name) == pytest.approx(getattr(TILED, name))


def test_entries_without_rounds_near_them_are_left_out() -> None:
    data = of((8, 1, 1, 8), (8, 2, 1.5, 8), (16, 3, 2, 16), (16, 9, 4, 16), (64, 5, 9, 64))
    assert fit_tiled_time(data, [8, 16, 24, 32, 64], 8).tokens == (8, 16, 64)
    with pytest.raises(InvalidValueError, match="rounds near fewer than two"):
        fit_tiled_time(of(*[(8, 1, 1, 8)] * 5), [8, 16, 24], 8)


def test_further_columns_are_read_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    path.write_text("tokens,decodes,kv_tokens,seconds,prompt_squares\n5,2,9,1,9\n6,6,9,2,0\n")
    data = Measurements.read(path)
    assert data.decodes is not None
    assert data.decodes.tolist() == [2, 6]
    assert data.prompt_past is None
    assert data.prompt_squares is not None
    assert data.prompt_squares.tolist() == [9, 0]
    path.write_text("tokens,decodes,kv_tokens,seconds\n5,2,9,1\n5,6,9,1\n")
    with pytest.raises(FileFormatError, match="row 3.*more than all"):
        Measurements.read(path)
