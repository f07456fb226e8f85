"""Files of the library that were damaged: one line that names the file or the instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances import FileFormatError, library
from instances.catalogue.library import FOLDER, read_set


def tampered(tmp_path: Path, before: str, after: str) -> Path:
    text = (FOLDER / "sets" / "j25-m1.json").read_text("utf-8")
    assert before in text
    path = tmp_path / "j25-m1.json"
    path.write_text(text.replace(before, after, 1), "utf-8")
    return path


def test_a_changed_request_is_an_error_of_one_line(tmp_path: Path) -> None:
    rows = library()["j25-m1-n10-00"].instance.output_lengths.tolist()
    for first, match in ((rows[0] - 1, "is made with the digest"), (999, "can never run")):
        changed = f'"output_lengths":[{first},'
        path = tampered(tmp_path, f'"output_lengths":[{rows[0]},', changed)
        with pytest.raises(FileFormatError, match=f"j25-m1-n10-00.*{match}") as error:
            _ = read_set(path).entries[0].instance
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("before", "after", "match"),
    [
        ('"format":"llm-hindsight/library-set"', '"format":"x"', "format is 'x', not"),
        ('"version":1', '"version":2', "version is 2"),
        ('"digest"', '"hash"', "'digest'"),
        ('"n":10', '"n":10,"goal":"speed"', "'speed' is not one of"),
        ('"n":10', '"n":10,"goal":"late_requests"', "j25-m1-n10-00.*, service level None"),
        ('"n":10', '"n":10,"level":{"latency":9}', "'total_latency', service level {'latency': 9}"),
    ],
)
def test_a_damaged_file_is_an_error_of_one_line(
    tmp_path: Path, before: str, after: str, match: str
) -> None:
    with pytest.raises(FileFormatError, match=match):
        read_set(tampered(tmp_path, before, after))
