"""What an instance's bounds are bounds of is told where something was rounded, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instances import generate, load, read_trace, rounding_note, save

ROWS = "0.0,374,44\n4.3,396,109\n"
TIMED = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + ROWS
LENGTHS = "x,num_prefill_tokens,num_decode_tokens\n" + ROWS


def note(folder: Path, text: str, **options: Any) -> str | None:
    path = folder / "t.csv"
    path.write_text(text)
    instance, _ = read_trace(path, memory_limit=999, **options)
    save(instance, folder / "t.json")
    return rounding_note(load(folder / "t.json").metadata)


def test_tokens_and_arrivals_of_a_log(tmp_path: Path) -> None:
    told = note(tmp_path, TIMED, token_scale=64, round_seconds=3.2)
    assert told is not None
    assert told.isprintable()
    for part in ("not of the log", "multiples of 64", "at least what the log says", "every 3.2 s"):
        assert part in told
    arrivals = note(tmp_path, TIMED)
    assert arrivals is not None
    assert "every 0.05 s" in arrivals
    assert "tokens" not in arrivals
    tokens = note(tmp_path, LENGTHS, token_scale=2)
    assert tokens is not None
    assert "arrivals" not in tokens


def test_nothing_is_told_where_nothing_was_rounded(tmp_path: Path) -> None:
    assert note(tmp_path, LENGTHS) is None
    assert rounding_note({}) is None
    assert rounding_note(generate("lmsys-like", n=2).metadata) is None
    assert rounding_note(generate("arrival-model-1").metadata) is None


def test_scaled_draws() -> None:
    told = rounding_note(generate("lmsys-like", n=2, token_scale=64).metadata)
    assert told is not None
    assert "not of the drawn lengths" in told
    assert "multiples of 64" in told


@pytest.mark.parametrize(
    "metadata",
    [
        {"trace": 3},
        {"trace": {}},
        {"trace": {"token_scale": "64"}},
        {"trace": {"has_arrival_times": True, "round_seconds": None}},
        {"origin": []},
        {"origin": {"parameters": {"token_scale": 0.5}}},
    ],
)
def test_other_metadata_of_these_names_says_nothing(metadata: dict[str, Any]) -> None:
    assert rounding_note(metadata) is None
