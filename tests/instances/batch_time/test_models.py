"""Batch-time models by hand, fits against known truths, presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import Workload
from instances.batch_time import BatchStretch, preset
from online import AffineTime, IterationTime, TiledTime, simulate
from online.batch_time import Measurements, fit_affine_time

# Three rounds: 2 requests decode, 1 completes a prompt of 5 in the first, 4 chunk tokens a round.
STRETCH = BatchStretch(3, 3, 5, 1, memory=20, growth=3, chunk_tokens=4)


def test_tokens_of_a_stretch() -> None:
    assert STRETCH.first_tokens == 2 + 5 + 4
    assert STRETCH.later_tokens == 3 + 4
    assert STRETCH.resident().tolist() == [20, 23, 26]


def test_durations_by_hand() -> None:
    """[A25] Section 2."""
    assert AffineTime(0.5).durations(STRETCH).tolist() == [0.5] * 3
    assert AffineTime(1, 2, 4).durations(STRETCH).tolist() == [103, 107, 119]
    # Flat at 1 up to 8 tokens, then a slope of 1/2; 11 tokens lie beyond the table.
    table = TiledTime([1, 8, 10], [1, 1, 2], kv_token=1)
    assert table.durations(STRETCH).tolist() == [2.5 + 20, 1 + 23, 1 + 26]


def test_unit_time_is_the_round_model_where_nothing_idles() -> None:
    source = Workload(
        [0.0, 0.5, 3.0], [2, 3, 1], [4, 2, 3], memory_limit=9, batch_time=AffineTime(1)
    )
    run = simulate(source, "fcfs")
    assert run.completion_times.tolist() == [4.0, 6.0, 7.0]


def test_the_preset() -> None:
    found = preset("llama-2-70b-2xa100")
    assert found is preset("llama-2-70b-2xa100")
    assert found.memory_limit == 16_492
    # 100 decodes at 10,000 resident tokens: 50 + 28 + 1.1 ms.
    stretch = BatchStretch(1, 100, 0, 0, 10_000, 100)
    assert found.batch_time.durations(stretch)[0] == pytest.approx(0.0791, abs=1e-12)


def measured(model: Any, noise: float) -> Measurements:
    rng = np.random.default_rng(5)
    tokens = rng.integers(1, 3000, 400)
    memory = rng.integers(0, 16_000, 400)
    seconds = [
        model.durations(BatchStretch(1, int(t), 0, 0, int(m), 0))[0]
        for t, m in zip(tokens, memory, strict=True)
    ]
    return Measurements(
        tokens.astype(float),
        memory.astype(float),
        np.array(seconds) * (1 + noise * rng.standard_normal(400)),
    )


def test_fits_recover_what_the_measurements_came_from() -> None:
    affine = AffineTime(0.05, 2.8e-4, 1.1e-6)
    fit = fit_affine_time(measured(affine, 0.0))
    assert [fit.model.d0, fit.model.d1, fit.model.d2] == pytest.approx([0.05, 2.8e-4, 1.1e-6])
    assert fit.largest_percentage_error < 1e-9
    assert fit.r_squared == pytest.approx(1)


@pytest.mark.parametrize("relative", [False, True])
def test_a_fit_reports_its_error(relative: bool) -> None:
    data = measured(AffineTime(0.05, 2.8e-4, 1.1e-6), 0.1)
    fit = fit_affine_time(data, relative=relative)
    model = fit.model
    errors = np.abs(
        (model.d0 + model.d1 * data.tokens + model.d2 * data.kv_tokens) / data.seconds - 1
    )
    assert fit.mean_absolute_percentage_error == pytest.approx(errors.mean())
    # The mean of |x| for a normal x is 0.8 standard deviations.
    assert 0.06 < fit.mean_absolute_percentage_error < 0.1


def test_a_fit_has_no_better_neighbour() -> None:
    data = measured(AffineTime(0.05, 2.8e-4, 1.1e-6), 0.1)
    best = fit_affine_time(data).model

    def loss(d0: float, d1: float, d2: float) -> float:
        return float(((d0 + d1 * data.tokens + d2 * data.kv_tokens - data.seconds) ** 2).sum())

    least = loss(best.d0, best.d1, best.d2)
    for factor in (0.99, 1.01):
        assert loss(best.d0 * factor, best.d1, best.d2) > least
        assert loss(best.d0, best.d1 * factor, best.d2) > least
        assert loss(best.d0, best.d1, best.d2 * factor) > least


def test_measurements_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    path.write_text("batch,tokens,kv_tokens,seconds\n1,0,0,1\n1,10,0,3\n2,0,10,2\n2,10,10,4\n")
    model = fit_affine_time(path).model
    assert [model.d0, model.d1, model.d2] == pytest.approx([1.0, 0.2, 0.1])


@given(
    rounds=st.integers(1, 5),
    requests=st.integers(0, 4),
    advancing=st.integers(1, 50),
    held=st.integers(0, 50),
)
def test_seconds_count_what_advances(rounds: int, requests: int, advancing: int, held: int) -> None:
    stretch = BatchStretch(rounds, requests, 3, 1, advancing + held, requests, held_memory=held)
    expected = [0.5 + 0.25 * (advancing + requests * k) for k in range(rounds)]
    assert IterationTime(0.5, 0.25).durations(stretch).tolist() == expected
    if not held:
        assert AffineTime(0.5, 0.0, 0.25).durations(stretch).tolist() == expected
