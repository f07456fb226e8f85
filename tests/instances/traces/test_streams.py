"""Documents taken apart piece by piece hold what the whole of them does."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from instances import FileFormatError
from instances.traces import streams
from instances.traces.streams import JsonStream, YamlStream

NUMBERS = st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=8)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def rebuilt(stream: JsonStream) -> Any:
    """What comes next, taken apart as far as it goes."""
    if stream.opening() == "[":
        return [rebuilt(stream) for _ in stream.items()]
    if stream.opening() == "{":
        return {key: rebuilt(stream) for key in stream.members()}
    return stream.value()


class Dripping(io.StringIO):
    """A text that gives a few characters at a time, whatever is asked for."""

    def __init__(self, text: str, step: int) -> None:
        super().__init__(text, newline="")
        self._step = step

    def read(self, size: int | None = -1) -> str:
        return super().read(self._step)


@given(DOCUMENTS, st.integers(1, 7), st.sampled_from([None, 1]))
def test_json_piece_by_piece(document: Any, step: int, indent: int | None) -> None:
    text = json.dumps(document, indent=indent)
    for take in (rebuilt, JsonStream.value):
        stream = JsonStream(Dripping(text, step), "x")
        assert take(stream) == document
        assert stream.opening() == ""
    stream = JsonStream(Dripping(f"{text} {text}", step), "x")
    stream.skip()
    assert stream.value() == document


@given(DOCUMENTS.filter(lambda one: isinstance(one, (list, dict))), st.integers(1, 7))
def test_yaml_piece_by_piece(document: Any, step: int) -> None:
    text = yaml.safe_dump(document, allow_unicode=False)
    # Anchors stand for what is there twice, and are not followed.
    if "&id" not in text:
        assert rebuilt(YamlStream(Dripping(text, step), "x")) == document
        stream = YamlStream(Dripping(f"{text}---\n{text}", step), "x")
        stream.skip()
        assert stream.opening() in "[{"
        assert stream.value() == document


def test_a_value_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_ITEM", 1000)
    monkeypatch.setattr(streams, "CHUNK", 100)
    with pytest.raises(FileFormatError, match="more than 1000 characters"):
        JsonStream(io.StringIO('["' + "x" * 5000), "x").skip()
