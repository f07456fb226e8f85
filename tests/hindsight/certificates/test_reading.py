"""Files of certificates: what is none is refused in a line, and a file is read up to a size."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from certificates_by_definition import document_of

from hindsight import check_certificate, read_certificate
from hindsight.certificates import limits
from instances import FileFormatError

PROOF = {"kind": "memory-prices", "scale": 4, "prices": [1, 2]}
DOCUMENT = document_of([(0, 1, 2), (1, 2, 2), (1, 0, 1)], 4, [0, 2, 4], PROOF, 1)

TEXT = json.dumps(DOCUMENT)


def changed(old: str, new: str) -> bytes:
    """The file with a text replaced."""
    assert old in TEXT
    return TEXT.replace(old, new).encode()


LONG = "x" * 10**5
VERSION, SCALE = '"version": 1', '"scale": 4'
FILES: list[tuple[bytes, str]] = [
    (b"", "not valid JSON"),
    (b"[]", "not a certificate"),
    (b'{"format": "llm-hindsight/instance"}', "not a certificate"),
    (changed(VERSION, '"version": 2'), "version is 2"),
    (changed(VERSION, '"version": true'), "version is True"),
    (b"[" * 10**5, "nested|not valid"),
    (b'{"a":' * 10**5, "nested|not valid"),
    (changed(SCALE, '"scale": ' + "9" * 5000), "4300 digits"),
    (changed(SCALE, '"scale": NaN'), "NaN is not valid JSON"),
    (changed(SCALE, '"scale": -Infinity'), "is not valid JSON"),
    (changed(SCALE, '"scale": 4, "scale": 4'), "'scale' is there twice"),
    (f'{{"{LONG}": 1, "{LONG}": 1}}'.encode(), "is there twice"),
    (gzip.compress(TEXT.encode()), "not UTF-8"),
    (gzip.compress(TEXT.encode())[:50], "not UTF-8"),
    (lzma.compress(TEXT.encode()) + b"more", "goes on after the end"),
    (2 * lzma.compress(TEXT.encode()), "goes on after the end"),
    (TEXT[:200].encode(), "not valid JSON"),
    (TEXT.replace("memory", "m\xe9moire").encode("latin-1"), "not UTF-8"),
    (TEXT.encode("utf-16"), "not UTF-8"),
    (bytes(10**5), "not valid JSON"),
    (changed(VERSION, f'"version": "{LONG}"'), "version is 'xxx"),
    (changed(VERSION, '"version": ' + "[" * 90 + "]" * 90), "version is a list"),
]


@pytest.mark.parametrize(("content", "words"), FILES, ids=range(len(FILES)))
def test_files_that_are_none_are_refused_in_a_line(
    content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=words) as caught:
        read_certificate(path)
    assert len(caught.value.reason) < 200


@pytest.mark.parametrize("compress", [bytes, lzma.compress])
def test_a_file_is_read_and_checked(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(compress(TEXT.encode()))
    assert check_certificate(read_certificate(path)) == check_certificate(DOCUMENT)


def test_a_file_is_read_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(TEXT, "utf-8")
    monkeypatch.setattr(limits, "LARGEST_FILE", len(TEXT))
    assert read_certificate(path) == DOCUMENT
    monkeypatch.setattr(limits, "LARGEST_FILE", len(TEXT) - 1)
    with pytest.raises(FileFormatError, match="larger than"):
        read_certificate(path)
    with pytest.raises(FileFormatError, match="larger than"):
        read_certificate("/dev/zero")
