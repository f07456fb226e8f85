"""Lengths of conversations, taken out of the files of the data set, for `reproduce --lengths`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from instances.files import TableWriter, write_atomically
from online.commands.console import check_output, fail, run, say, writing
from studies.reproduction.conversation_file import first_exchanges, tokens_of, words


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
    """Count the first question and its answer of every conversation.

    The CSV holds two numbers a conversation and nothing else of it.
    """
    check_output(out, (".csv",))
    unit, count = ("words", words) if tokenizer is None else ("tokens", tokens_of(tokenizer))
    stream = io.StringIO()
    writer = TableWriter(stream)
    writer.writerow([f"prompt_{unit}", f"output_{unit}"])
    written = passed_over = 0
    for file in files:
        for lengths in first_exchanges(file, count, language):
            if lengths is None:
                passed_over += 1
            else:
                writer.writerow(lengths)
                written += 1
    if not written:
        fail(f"no conversation with a question and an answer in {', '.join(map(str, files))}")
    with writing():
        write_atomically(out, stream.getvalue())
        say(
            f"wrote {written:,} conversations in {unit} to {out}, passed over {passed_over:,} "
            "without a question and an answer"
        )


if __name__ == "__main__":
    run(conversation_lengths)
