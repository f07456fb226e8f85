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
from hindsight.certificates import format as certificate_format
from instances import FileFormatError

PROOF = {"kind": "memory-prices", "scale": 4, "prices": [1, 2]}
DOCUMENT = document_of([(0, 1, 2), (1, 2, 2), (1, 0, 1)], 4, [0, 2, 4], PROOF, 1)

TEXT = json.dumps(DOCUMENT)
FILES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not valid JSON"),
    "a list": (b"[]", "not a certificate"),
    "another format": (b'{"format": "llm-hindsight/instance"}', "not a certificate"),
    "another version": (TEXT.replace('"version": 1', '"version": 2').encode(), "version is 2"),
    "true": (TEXT.replace('"version": 1', '"version": true').encode(), "version is True"),
    "nested": (b"[" * 10**5, "nested|not valid"),
    "nested in an object": (b'{"a":' * 10**5, "nested|not valid"),
    "digits": (TEXT.replace('"scale": 4', '"scale": ' + "9" * 5000).encode(), "4300 digits"),
    "not a number": (TEXT.replace('"scale": 4', '"scale": NaN').encode(), "NaN is not a number"),
    "infinite": (TEXT.replace('"scale": 4', '"scale": -Infinity').encode(), "not a number"),
    "repeated key": (
        TEXT.replace('"scale": 4', '"scale": 4, "scale": 4').encode(),
        "'scale' is there twice",
    ),
    "repeated long key": (
        ('{"' + "x" * 10**5 + '": 1, "' + "x" * 10**5 + '": 1}').encode(),
        "is there twice",
    ),
    "gzip": (gzip.compress(TEXT.encode()), "not valid JSON"),
    "half a gzip": (gzip.compress(TEXT.encode())[:50], "not valid JSON"),
    "more behind xz": (lzma.compress(TEXT.encode()) + b"more", "goes on after the end"),
    "twice in xz": (2 * lzma.compress(TEXT.encode()), "goes on after the end"),
    "half": (TEXT[:200].encode(), "not valid JSON"),
    "Latin 1": (TEXT.replace("memory", "m\xe9moire").encode("latin-1"), "not valid JSON"),
    "UTF-16": (TEXT.encode("utf-16"), "not valid JSON"),
    "zeros": (bytes(10**5), "not valid JSON"),
    "long version": (
        TEXT.replace('"version": 1', f'"version": "{"x" * 10**5}"').encode(),
        "version is 'xxx",
    ),
    "list for a version": (
        TEXT.replace('"version": 1', '"version": ' + "[" * 900 + "]" * 900).encode(),
        "version is a list",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_none_are_refused_in_a_line(name: str, tmp_path: Path) -> None:
    content, match = FILES[name]
    path = tmp_path / "certificate.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=match) as caught:
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
    monkeypatch.setattr(certificate_format, "LARGEST_FILE", len(TEXT))
    assert read_certificate(path) == DOCUMENT
    monkeypatch.setattr(certificate_format, "LARGEST_FILE", len(TEXT) - 1)
    with pytest.raises(FileFormatError, match="larger than"):
        read_certificate(path)
    with pytest.raises(FileFormatError, match="larger than"):
        read_certificate("/dev/zero")
