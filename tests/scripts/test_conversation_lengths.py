from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conversation_lengths import first_exchanges, words
from forked_scripts import Refused, Script

from instances import FileFormatError
from studies.reproduction.lengths import read_lengths


def conversation(*turns: tuple[str, str], language: str = "English") -> dict[str, Any]:
    listed = [{"role": role, "content": content} for role, content in turns]
    return {"conversation_id": "x", "model": "m", "conversation": listed, "language": language}


RECORDS = [
    conversation(("user", "one  two\nthree"), ("assistant", "four")),
    # Only the first question and its answer count.
    conversation(("user", "a b"), ("assistant", "c d e"), ("user", "f"), ("assistant", "g")),
    conversation(("assistant", "unasked"), ("user", "a"), ("assistant", "b c")),
    conversation(("user", "nobody answers")),
    conversation(("user", "a"), ("assistant", " ")),
    conversation(("user", "un deux"), ("assistant", "trois"), language="French"),
]
LENGTHS = [(3, 1), (2, 3), (1, 2), None, None, (2, 1)]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "conversations.jsonl"
    path.write_text("\n".join(map(json.dumps, RECORDS)) + "\n\n")
    return path


def test_the_first_question_and_its_answer_are_counted(lines: Path) -> None:
    assert list(first_exchanges(lines, words)) == LENGTHS
    assert list(first_exchanges(lines, words, "French")) == [(2, 1)]
    assert list(first_exchanges(lines, len, "French")) == [(7, 5)]


def test_what_is_written_is_what_reproduce_reads(
    script: Script, lines: Path, tmp_path: Path
) -> None:
    out = tmp_path / "lmsys.csv"
    done = script("conversation_lengths", lines, "--out", out, "--language", "English")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"wrote 3 conversations in words to {out}, passed over 2 without a question and an answer\n"
    )
    assert out.read_text() == "prompt_words,output_words\n3,1\n2,3\n1,2\n"
    known = read_lengths(out)
    assert (known.unit, known.rows) == ("words", 3)
    assert [side.tolist() for side in known.lengths()] == [[3, 2, 1], [1, 3, 2]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('\n{"conversation": [{"role": "user"}]}', "row 2: a turn has no role or no content"),
        ('{"conversation": []}', "no conversation with a question and an answer"),
        ("PAR1", "pip install pyarrow"),
    ],
)
def test_other_files_are_refused_in_one_line(
    refused: Refused, tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    if "pyarrow" in said and _installed("pyarrow"):
        pytest.skip("pyarrow is installed")
    assert said in refused("conversation_lengths", path, "--out", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_tokens_need_their_package(refused: Refused, lines: Path, tmp_path: Path) -> None:
    if _installed("tokenizers"):
        pytest.skip("tokenizers is installed")
    options = ("--out", tmp_path / "out.csv", "--tokenizer", lines)
    assert "pip install tokenizers" in refused("conversation_lengths", lines, *options)


def _installed(package: str) -> bool:
    try:
        __import__(package)
    except ImportError:
        return False
    return True


def stand_in(batches: list[list[dict[str, Any]]]) -> Callable[[Path], SimpleNamespace]:
    """What of a parquet file is asked for, without the package."""

    def file(path: Path) -> SimpleNamespace:
        return SimpleNamespace(
            schema_arrow=SimpleNamespace(names=["model", "conversation", "language"]),
            iter_batches=lambda columns: [
                SimpleNamespace(
                    to_pylist=lambda rows=rows: [
                        {name: row[name] for name in columns} for row in rows
                    ]
                )
                for rows in batches
            ],
        )

    return file


def test_parquet_is_read_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.parquet"
    path.write_bytes(b"PAR1")
    module = SimpleNamespace(ParquetFile=stand_in([RECORDS[:2], RECORDS[2:]]))
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=module))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)
    assert list(first_exchanges(path, words)) == LENGTHS


def test_without_its_package_parquet_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileFormatError, match="parquet needs the package 'pyarrow': pip install"):
        list(first_exchanges(path, words))
