"""What an instance's bounds are bounds of is noted where something was rounded, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from instances import generate, library, rounding_note

AZURE = library()["azure-conv-n80-00"].instance.metadata["trace"]


def test_tokens_and_arrivals_of_a_log() -> None:
    note = rounding_note({"trace": {**AZURE, "token_scale": 64, "round_seconds": 3.2}})
    assert note is not None
    assert note.isprintable()
    for part in ("not of the log", "multiples of 64", "at least what the log says", "every 3.2 s"):
        assert part in note
    arrivals = rounding_note({"trace": {**AZURE, "token_scale": 1, "round_seconds": 0.05}})
    assert arrivals is not None
    assert "every 0.05 s" in arrivals
    assert "tokens" not in arrivals
    tokens = rounding_note({"trace": {**AZURE, "has_arrival_times": False}})
    assert tokens is not None
    assert "arrivals" not in tokens


def test_scaled_draws() -> None:
    note = rounding_note(generate("lmsys-like", n=2, token_scale=64).metadata)
    assert note is not None
    assert "not of the drawn lengths" in note
    assert "multiples of 64" in note
    assert rounding_note(generate("lmsys-like", n=2).metadata) is None


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"trace": 3},
        {"trace": {"token_scale": "64"}},
        {"trace": {"has_arrival_times": True, "round_seconds": None}},
        {"origin": []},
        {"origin": {"parameters": {"token_scale": 0.5}}},
    ],
)
def test_nothing_is_noted_where_nothing_was_rounded(metadata: dict[str, Any]) -> None:
    assert rounding_note(metadata) is None
