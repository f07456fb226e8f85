"""Batch times from measured tables: the steps asked for, and the presets that come along."""

from __future__ import annotations

import json
from importlib import resources
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hindsight.prices.minorants import affine_minorants
from instances import InvalidValueError
from instances.batch_time import preset
from online import TiledTime
from online.batch_time import measured_tables, read_batch_time
from online.batch_time.measured_tables import PREFIX, steps_of

SHIPPED = json.loads((resources.files("instances.batch_time") / "measured.json").read_text("utf-8"))


class Engine:
    """The part of the package's engine that is asked, for d = (10 ms, 20 us, 0.03 us)."""

    def decode_step_latency(self, requests: int, kv_tokens: int, outputs: int) -> float:
        return 10 + 0.02 * requests + 3e-5 * requests * kv_tokens

    def predict_prefill_latency(self, requests: int, tokens: int, prefix: int) -> float:
        return 10 + 0.02 * requests * (tokens - prefix) + 3e-5 * tokens

    def mixed_step_latency(self, n: int, requests: int, kv_tokens: int, outputs: int) -> float:
        before = max(0, kv_tokens - n) / 2
        resident = n + before + requests * kv_tokens
        return 10 + 0.02 * (n + requests) + 3e-5 * resident


def test_the_steps_of_an_affine_engine_give_its_coefficients() -> None:
    steps = steps_of(Engine())
    seconds = 0.010 + 2e-5 * steps.tokens + 3e-8 * steps.kv_tokens
    np.testing.assert_allclose(steps.seconds, seconds)
    # Of a mixed step with prompts of 512 tokens: four whole ones of 2,048.
    rows = (steps.tokens == 2048 + 8) & (steps.kv_tokens == 2048 + 8 * 512)
    assert steps.prompt_squares[rows].tolist() == [2048 * 512]


@pytest.mark.parametrize(
    "text", ["", "a/b/c", "a/b/c/4x", "a/b/c/tp0", "a/b/c/tp1/fp8/nvfp4", "a/b/c/tp1/affine"]
)
def test_a_deployment_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="is not of the form aiconfigurator:SYSTEM/ENGINE"):
        read_batch_time(PREFIX + text)


def test_a_deployment_is_asked_by_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def estimate(*place: Any, **settings: Any) -> dict[str, int]:
        asked.append((*place, *map(settings.get, ("tp_size", "gemm_quant_mode"))))
        return {"total_kv_size_tokens": 9}

    handle = SimpleNamespace(compile=lambda *place, **settings: Engine())
    package = SimpleNamespace(EngineHandle=handle, estimate_kv_cache=estimate)
    monkeypatch.setattr(measured_tables, "import_module", lambda name: package)
    monkeypatch.setattr(measured_tables, "_model", str.upper)
    assert read_batch_time(f"{PREFIX}h200_sxm/vllm/m/tp4/fp8")[1] == 9
    assert asked == [("M", "h200_sxm", "vllm", 4, "fp8")]


def test_the_package_that_is_needed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(measured_tables, "import_module", missing)
    with pytest.raises(InvalidValueError, match=r"pip install 'llm-hindsight\[aiconfigurator\]'"):
        read_batch_time(f"{PREFIX}h200_sxm/vllm/none/tp1")


def test_presets_come_with_source_and_licence() -> None:
    assert "aiconfigurator-core 0.12.0" in SHIPPED["source"]
    assert SHIPPED["licence"] == "Apache-2.0"
    assert len(SHIPPED["presets"]) == 12


@pytest.mark.parametrize("name", SHIPPED["presets"])
def test_a_preset_of_today_s_machines(name: str) -> None:
    found = preset(name)
    assert isinstance(found.batch_time, TiledTime)
    assert read_batch_time(name) == (found.batch_time, found.memory_limit)
    assert affine_minorants(found.batch_time, found.memory_limit)
    # Weights of 16 or 35 GB a GPU are read once a round, from memory of 2 to 8 TB a second.
    assert 0.002 < found.batch_time.at(1) < 0.03
    assert 400_000 < found.memory_limit < 2_000_000


def test_newer_machines_are_faster() -> None:
    for model in ("8b-{}-tp1", "70b-{}-tp4"):
        names = [f"llama-3.1-{model.format(gpu)}-vllm" for gpu in ("a100", "h100", "h200", "b200")]
        seconds = [preset(name).batch_time.at(8) for name in names]
        assert seconds == sorted(seconds, reverse=True)


def test_a_preset_is_what_the_tables_give() -> None:
    pytest.importorskip("aiconfigurator_core")
    name = "llama-3.1-70b-h200-tp4-vllm"
    found, limit = read_batch_time(SHIPPED["presets"][name]["of"])
    assert limit == preset(name).memory_limit
    assert np.array(found.seconds) == pytest.approx(preset(name).batch_time.seconds, rel=1e-4)
    with pytest.raises(InvalidValueError, match="is not in the tables"):
        read_batch_time(f"{PREFIX}z80/vllm/llama-3.1-70b/tp4")
    with pytest.raises(InvalidValueError, match="'llama-9' is none of"):
        read_batch_time(f"{PREFIX}h200_sxm/vllm/llama-9/tp4")
