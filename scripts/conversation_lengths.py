"""Write the lengths of a data set of conversations to a file for `reproduce --lengths`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer

from instances.errors import FileFormatError
from instances.files import bounded_lines, csv_text, parse_json, write_atomically
from instances.logs.records import LONGEST_RECORD
from online.commands.console import check_output, fail, run, say, writing

PARQUET = b"PAR1"
"""First four bytes of a Parquet file."""

Counter = Callable[[str], int]
"""Function that returns the length of a text."""


def words(text: str) -> int:
    """Return the number of words of a text, which white space separates, as the papers count."""
    return len(text.split())


def tokens_of(tokenizer: Path) -> Counter:
    """Return a function that counts the tokens of a text by a file ``tokenizer.json``.

    The format of the file is that of the package tokenizers.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file is not a tokenizer, or the package is not installed.
    """
    package = _needed("tokenizers", tokenizer, "counting tokens")
    text = tokenizer.read_bytes()
    try:
        encode = package.Tokenizer.from_buffer(text).encode
    except ValueError as error:
        raise FileFormatError(tokenizer, f"is not a tokenizer: {error}") from None
    return lambda content: len(encode(content, add_special_tokens=False).ids)


def first_exchanges(
    path: Path, count: Counter, language: str | None = None
) -> Iterator[tuple[int, int] | None]:
    """Yield, for each conversation, the lengths of its first question and of the answer.

    Yield None if the conversation has no question and answer, or if one of them is empty.

    Parameters
    ----------
    path : Path
        File of conversations: JSON lines or Parquet.
    count : Counter
        Function that returns the length of a text.
    language : str, optional
        Include only conversations in this language, such as ``"English"``.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        A record has another form. Or the file is Parquet, and the package to read it is missing.
    """
    for number, record in _records(path):
        if not isinstance(record, dict) or not isinstance(record.get("conversation"), list):
            raise FileFormatError(path, "has no list 'conversation'", row=number)
        if language is None or record.get("language") == language:
            yield _lengths(path, number, record["conversation"], count)


def _lengths(path: Path, number: int, turns: list[Any], count: Counter) -> tuple[int, int] | None:
    question: str | None = None
    for turn in turns:
        texts = (turn.get("role"), turn.get("content")) if isinstance(turn, dict) else (None, None)
        role, content = texts
        if not (isinstance(role, str) and isinstance(content, str)):
            raise FileFormatError(path, "a turn has no role or no content", row=number)
        if role == "user" and question is None:
            question = content
        elif role == "assistant" and question is not None:
            found = count(question), count(content)
            return found if min(found) else None
    return None


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as stream:
        is_parquet = stream.read(len(PARQUET)) == PARQUET
    if is_parquet:
        yield from _parquet_rows(path)
        return
    try:
        with path.open(encoding="utf-8-sig") as text:
            for number, line in enumerate(bounded_lines(text, path, longest=LONGEST_RECORD), 1):
                if line.strip():
                    yield number, parse_json(line, f"{path}, row {number}")
    except UnicodeDecodeError as error:
        raise FileFormatError(path, f"neither JSON lines nor parquet: {error}") from None


def _parquet_rows(path: Path) -> Iterator[tuple[int, Any]]:
    parquet = _needed("pyarrow.parquet", path, "parquet")
    try:
        file = parquet.ParquetFile(path)
        wanted = [name for name in ("conversation", "language") if name in file.schema_arrow.names]
        number = 0
        for batch in file.iter_batches(columns=wanted):
            for record in batch.to_pylist():
                number += 1
                yield number, record
    except (ValueError, OSError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(path, f"not a parquet file that can be read: {error}") from None


def _needed(module: str, path: Path, what: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        reason = f"{what} needs the package '{package}': pip install {package}"
        raise FileFormatError(path, reason) from None


def conversation_lengths(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Conversations: JSON lines or parquet.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.csv", help="Where lengths are written.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="Count tokens of this tokenizer.json, instead of words as the papers do."
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Only conversations of this language, as 'English'.")
    ] = None,
) -> None:
    """Count the lengths of the first question and its answer in every conversation.

    The CSV file has these two numbers for each conversation, and nothing else.
    """
    check_output(out, (".csv",))
    unit, count = ("words", words) if tokenizer is None else ("tokens", tokens_of(tokenizer))
    rows: list[Any] = [(f"prompt_{unit}", f"output_{unit}")]
    passed_over = 0
    for file in files:
        for lengths in first_exchanges(file, count, language):
            if lengths is None:
                passed_over += 1
            else:
                rows.append(lengths)
    written = len(rows) - 1
    if not written:
        fail(f"no conversation with a question and an answer in {', '.join(map(str, files))}")
    with writing():
        write_atomically(out, csv_text(rows))
        say(
            f"wrote {written:,} conversations in {unit} to {out}, passed over {passed_over:,} "
            "without a question and an answer"
        )


if __name__ == "__main__":
    run(conversation_lengths)
