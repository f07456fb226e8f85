"""A whole log as arrays: the requests in order of arrival, and beside them what it measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.errors import FileFormatError, InvalidValueError, printable

from .held_rows import HeldRows
from .prefixes import shared_prefixes
from .reading import TraceReader
from .row import DATES, MOST_INTER_TOKEN_TIMES, OnBadRows, SkippedRows

PIECE = 2**14
"""Requests whose times between tokens are put in order at once."""


@dataclass(frozen=True, eq=False)
class RequestLog:
    """Requests of a log or trace in order of arrival, and what became of its rows.

    Attributes
    ----------
    source : str
        The file's name.
    format : str
        What it was read as.
    has_arrival_times : bool
        False for a file without any; all its requests arrive at 0.
    arrival_times : float64 array, shape (n,)
        Seconds since the first request.
    prompt_lengths, output_lengths : int64 array, shape (n,)
        Tokens, >= 1.
    latencies, times_to_first_token, mean_inter_token_times : float64 array, shape (n,)
        Seconds, as the log measured them; NaN where it did not. The mean is that of the times
        between tokens: their sum, or the latency less the time to the first token, over the tokens
        after the first.
    inter_token_times : float32 array
        Seconds from token to token, or chunk to chunk: those of request k are at
        ``inter_token_offsets[k] .. inter_token_offsets[k + 1]``.
    inter_token_offsets : int64 array, shape (n + 1,)
        Where they begin and end; equal where none are held.
    inter_token_times_are_cut : bool
        Whether there were more of them than are held.
    row_numbers : int64 array, shape (n,)
        Line of the file, or record of the document, the first being 1.
    rows : int
        Requests in the file, with those left out.
    failed : int
        Left out because they failed or were broken off.
    dropped_empty : int
        Left out because they have no prompt or no output tokens.
    without_output : int
        Those of them that finished and have no output length.
    out_of_order : int
        Requests that went back in time.
    left_out : Mapping[str, int]
        Left out for another reason, by reason: those of a warm-up, and spans that count the tokens
        of others.
    time_unit : str or None
        Unit in which the file has arrivals, or ``"dates"``; None where it has none.
    note : str or None
        What was assumed in reading it.
    skipped : SkippedRows
        Left out because they cannot be read, by reason.
    workers : object array of str or None, shape (n,), or None
        Label of the replica that served each request, None where its row names none; None where the
        log names none at all.
    prompt_blocks : object array of PromptBlocks or None, shape (n,), or None
        Hashes of prompts, where the log has some and was read with ``block_hashes``.
    shared_tokens : int64 array, shape (n,), or None
        Tokens by which `without_shared_prefixes` has shortened each prompt; None before.
    settings : Mapping[str, Any]
        Settings of the engine that the file states, by the engine's names.
    """

    source: str
    format: str
    has_arrival_times: bool
    arrival_times: FloatArray
    prompt_lengths: IntArray
    output_lengths: IntArray
    latencies: FloatArray
    times_to_first_token: FloatArray
    mean_inter_token_times: FloatArray
    inter_token_times: npt.NDArray[np.float32]
    inter_token_offsets: IntArray
    inter_token_times_are_cut: bool
    row_numbers: IntArray
    rows: int
    failed: int
    dropped_empty: int
    without_output: int
    out_of_order: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    time_unit: str | None = None
    note: str | None = None
    skipped: SkippedRows = field(default_factory=SkippedRows)
    workers: npt.NDArray[np.object_] | None = None
    prompt_blocks: npt.NDArray[np.object_] | None = None
    shared_tokens: IntArray | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.arrival_times)

    @property
    def ids(self) -> list[str]:
        """Labels of the requests, as instances made of the same rows have them."""
        return [f"row{number}" for number in self.row_numbers.tolist()]

    def select(self, kept: npt.NDArray[np.bool_] | IntArray) -> RequestLog:
        """The log with some of its requests only; the counts stay those of the file.

        Parameters
        ----------
        kept : bool array of shape (n,) or int64 array
            Which, as a mask or as positions.
        """
        places = np.arange(len(self))[kept]
        times, offsets = _taken(self.inter_token_times, self.inter_token_offsets, places)
        columns: dict[str, Any] = {
            name: column[places]
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray) and not name.startswith("inter_token")
        }
        return replace(self, inter_token_times=times, inter_token_offsets=offsets, **columns)

    def without_shared_prefixes(
        self,
        *,
        block_size: int | None = None,
        cache_block_size: int | None = None,
        outputs: bool = True,
    ) -> RequestLog:
        """Shorten every prompt by what another request of the log could supply.

        A lower bound for the shortened requests is one for the whole ones with any cache of
        prefixes; `instances.traces.prefixes` has the conditions and the proof. A schedule of the
        shortened requests need not be one of the whole ones. Choose windows of the log afterwards:
        requests outside a window supply prefixes too.

        Parameters
        ----------
        block_size : int or None, default None
            Tokens of a block of the log; None takes it as the log has it.
        cache_block_size : int or None, default None
            Tokens of a block of the cache; None means that it shares blocks of the log.
        outputs : bool, default True
            Whether a prompt may go on with what another request generated, as in a conversation.

        Raises
        ------
        InvalidValueError
            There are no hashes, or they do not go with the prompts, or prompts are shortened
            already.
        """
        if self.shared_tokens is not None:
            raise InvalidValueError(None, "log", self.source, "is without shared prefixes already")
        blocks = [] if self.prompt_blocks is None else self.prompt_blocks.tolist()
        unknown = len(self) - len(blocks) + blocks.count(None)
        if unknown:
            reason = (
                f"lacks the hashes of {unknown} of {len(self)} prompts: mooncake and dynamo are "
            )
            reason += "formats that have them, and read_log holds them with block_hashes=True"
            raise InvalidValueError(None, "log", self.source, reason)
        sizes = {one.block_size for one in blocks}
        if block_size is None and len(sizes) > 1:
            raise InvalidValueError(None, "block_size", sorted(sizes), "are several: which is it?")
        shared = shared_prefixes(
            [one.hashes for one in blocks],
            min(sizes) if block_size is None else block_size,
            self.prompt_lengths,
            self.output_lengths if outputs else None,
            cache_block_size=cache_block_size,
        )
        return replace(self, prompt_lengths=self.prompt_lengths - shared, shared_tokens=shared)

    @property
    def shared_note(self) -> str | None:
        """What is said beside a bound for shortened prompts; None where none are shortened."""
        if self.shared_tokens is None:
            return None
        tokens = int(self.shared_tokens.sum())
        share = tokens / int(tokens + self.prompt_lengths.sum())
        return (
            f"prompts shortened by {tokens:,} tokens that other requests share "
            f"({100 * share:.1f} % of all prompt tokens)"
        )

    def __str__(self) -> str:
        parts = [f"{self.source} ({self.format}): {len(self)} of {self.rows} requests kept"]
        left_out = {
            "failed": self.failed,
            **self.left_out,
            "without output length": self.without_output,
            "empty": self.dropped_empty - self.without_output,
            "skipped": len(self.skipped),
        }
        if any(left_out.values()):
            told = ", ".join(f"{count} {why}" for why, count in left_out.items() if count)
            parts[0] += f" ({told})"
        if self.out_of_order:
            parts.append(f"sorted, {self.out_of_order} out of order")
        parts.append(arrivals_note(self.time_unit, float(self.arrival_times[-1])))
        counts = {
            "latency": np.isfinite(self.latencies).sum(),
            "time to first token": np.isfinite(self.times_to_first_token).sum(),
            "times between tokens": np.count_nonzero(np.diff(self.inter_token_offsets)),
            "mean time between tokens": np.isfinite(self.mean_inter_token_times).sum(),
        }
        measured = [f"{name} of {count}" for name, count in counts.items() if count]
        if measured:
            parts.append(f"measured: {', '.join(measured)}")
        if self.workers is not None:
            parts.append(f"{len({*self.workers.tolist()} - {None})} workers named")
        if self.inter_token_times_are_cut:
            parts.append(f"only the first {len(self.inter_token_times)} times between tokens held")
        return "; ".join(parts if self.note is None else [*parts, self.note])


def read_log(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
    most_inter_token_times: int = MOST_INTER_TOKEN_TIMES,
    bad_rows: OnBadRows = "refuse",
    block_hashes: bool = False,
) -> RequestLog:
    """Read a log or a trace as a whole, in order of arrival, with what it measured.

    Parameters
    ----------
    path : str or os.PathLike
        Any file that `open_trace` reads.
    format, columns : str or None, Mapping[str, str] or None
        As in `open_trace`.
    most_inter_token_times : int, default 16777216
        Times between tokens to hold, 4 bytes each; of later requests only the mean is held.
    bad_rows : {"refuse", "skip"}, default "refuse"
        What becomes of rows that cannot be read, as in `open_trace`.
    block_hashes : bool, default False
        Whether to hold the hashes of prompts, 8 bytes a block and some 150 a request.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        As in `TraceReader`, no request is left, or none has the worker that ``columns`` name.
    UnknownNameError, InvalidTypeError, InvalidValueError
        No format of the name given, or columns that do not say what is read.
    """
    held = HeldRows(most_inter_token_times)
    empty = 0
    with TraceReader(path, format, columns=columns, bad_rows=bad_rows) as reader:
        for row in reader.rows():
            if row.prompt_tokens and row.output_tokens:
                held.append(row if block_hashes else row._replace(blocks=None))
            else:
                empty += 1
    if not len(held):
        raise FileFormatError(
            path,
            f"no request is left of {reader.skipped.rows} ({reader.failed} failed, "
            f"{''.join(f'{count} {why}, ' for why, count in (+reader.left_out).items())}"
            f"{reader.without_output} without output length, {empty - reader.without_output} "
            f"empty{f', {reader.skipped}' if reader.skipped else ''})",
        )
    arrays = held.arrays()
    if columns and "worker" in columns and "workers" not in arrays:
        reason = f"no request says which worker served it: {columns['worker']!r} is missing"
        raise FileFormatError(path, reason)
    return RequestLog(
        source=printable(os.path.basename(os.fsdecode(path))),
        format=reader.format.name,
        has_arrival_times=reader.has_arrival_times,
        **arrays,
        inter_token_times_are_cut=held.is_cut or reader.inter_token_times_are_cut,
        rows=reader.skipped.rows,
        failed=reader.failed,
        left_out=+reader.left_out,
        dropped_empty=empty,
        without_output=reader.without_output,
        out_of_order=reader.out_of_order,
        time_unit=reader.time_unit,
        note=reader.note,
        skipped=reader.skipped,
        settings=reader.settings,
    ).select(held.order())


def arrivals_note(unit: str | None, span: float, origin: str = "second 0") -> str:
    """Say in which unit a file has arrivals, and how many seconds they span."""
    if unit is None:
        return f"no arrival times, all at {origin}"
    return f"arrivals are {unit if unit == DATES else f'in {unit}'} and span {span:,.6g} s"


def _taken(
    values: npt.NDArray[np.float32], offsets: IntArray, places: IntArray
) -> tuple[npt.NDArray[np.float32], IntArray]:
    """The pieces of ``values`` at these places, one after the other, and where each begins."""
    counts = np.diff(offsets)[places]
    starts = np.concatenate([[0], np.cumsum(counts)])
    if len(values) == starts[-1] and np.array_equal(places, np.arange(len(offsets) - 1)):
        return values, starts
    taken = np.empty(starts[-1], np.float32)
    for first in range(0, len(places), PIECE):
        last = min(first + PIECE, len(places))
        shift = np.repeat(offsets[places[first:last]] - starts[first:last], counts[first:last])
        taken[starts[first] : starts[last]] = values[shift + np.arange(starts[first], starts[last])]
    return taken, starts
