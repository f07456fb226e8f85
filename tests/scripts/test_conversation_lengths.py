from __future__ import annotations

import json
import sys
from pathlib import Path
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


def test_the_first_question_and_its_answer_are_counted(script: Script, tmp_path: Path) -> None:
    lines, out = tmp_path / "conversations.jsonl", tmp_path / "lmsys.csv"
    lines.write_text("\n".join(map(json.dumps, RECORDS)) + "\n\n")
    assert list(first_exchanges(lines, words)) == LENGTHS
    assert list(first_exchanges(lines, words, "French")) == [(2, 1)]
    assert list(first_exchanges(lines, len, "French")) == [(7, 5)]
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
    ],
)
def test_other_files_are_refused_in_one_line(
    refused: Refused, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "file").write_text(content)
    assert said in refused("conversation_lengths", tmp_path / "file", "--out", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileFormatError, match="parquet needs the package 'pyarrow': pip install"):
        list(first_exchanges(tmp_path / "train.parquet", words))
