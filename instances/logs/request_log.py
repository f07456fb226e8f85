"""A whole log as arrays or a frame: the requests in order of arrival, and what it measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.errors import FileFormatError, InvalidValueError, printable

from .cells import DATES, TICKS_PER_SECOND, SkippedRows
from .prefixes import shared_prefixes
from .reading import OnBadRows, read_rows

if TYPE_CHECKING:
    import pandas


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

    @property
    def frame(self) -> pandas.DataFrame:
        """A row a request; ``attrs`` has what the file is and the unit of its arrivals."""
        import pandas

        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        rows = {
            name: column
            for name, column in columns.items()
            if isinstance(column, np.ndarray) and not name.startswith("inter_token")
        }
        told = {name: columns[name] for name in ("source", "format", "time_unit", "note")}
        found = pandas.DataFrame(rows)
        found.attrs |= told
        return found

    def select(self, kept: npt.NDArray[np.bool_] | IntArray) -> RequestLog:
        """The log with some of its requests only; the counts stay those of the file.

        Parameters
        ----------
        kept : bool array of shape (n,) or int64 array
            Which, as a mask or as positions.
        """
        places, offsets = np.arange(len(self))[kept], self.inter_token_offsets
        counts = np.diff(offsets)[places]
        begins = np.repeat(offsets[places] - np.cumsum(counts) + counts, counts)
        columns: dict[str, Any] = {
            name: column[places]
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray) and not name.startswith("inter_token")
        }
        return replace(
            self,
            inter_token_times=self.inter_token_times[begins + np.arange(len(begins))],
            inter_token_offsets=np.concatenate([[0], np.cumsum(counts)]),
            **columns,
        )

    def without_shared_prefixes(
        self, *, cache_block_size: int | None = None, outputs: bool = True
    ) -> RequestLog:
        """Shorten every prompt by what another request of the log could supply.

        A lower bound for the shortened requests is one for the whole ones with any cache of
        prefixes; `instances.logs.prefixes` has the conditions and the proof. A schedule of the
        shortened requests need not be one of the whole ones. Choose windows of the log afterwards:
        requests outside a window supply prefixes too.

        Parameters
        ----------
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
                "formats that have them, and read_log holds them with block_hashes=True"
            )
            raise InvalidValueError(None, "log", self.source, reason)
        sizes = {one.block_size for one in blocks}
        if len(sizes) > 1:
            raise InvalidValueError(None, "block sizes", sorted(sizes), "are several")
        shared = shared_prefixes(
            [one.hashes for one in blocks],
            min(sizes),
            self.prompt_lengths,
            self.output_lengths if outputs else None,
            cache_block_size=cache_block_size,
        )
        return replace(self, prompt_lengths=self.prompt_lengths - shared, shared_tokens=shared)

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
        return "; ".join(parts if self.note is None else [*parts, self.note])


def read_log(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, Any] | None = None,
    bad_rows: OnBadRows = "refuse",
    block_hashes: bool = False,
) -> RequestLog:
    """Read a log or a trace as a whole, in order of arrival, with what it measured.

    Parameters
    ----------
    path : str or os.PathLike
        A table (CSV), JSON lines, JSON, YAML or Parquet, plain or compressed with gzip; a pipe too.
    format : str or None, default None
        The name of a format; None tells it from the content.
    columns : Mapping[str, str] or None, default None
        Instead of a format, which column holds what: ``{"arrival": ..., "prompt": ..., "output":
        ...}``. In JSON a name may be a path, as in ``"usage.prompt_tokens"``; a dot in a key has a
        backslash before it. Arrivals are seconds or dates, as the first is and the name of their
        column says; ``"arrival_ms"``, ``"arrival_us"`` and ``"arrival_ns"`` count parts of a
        second; without any all arrive at once. Measurements are ``"latency"``,
        ``"time_to_first_token"``, ``"inter_token_time"`` (the mean), each with ``_ms`` or in the
        unit that ends its name, else in seconds; ``"end"`` and ``"first_token"`` are times on the
        clock of arrivals. ``"error"`` is empty, 0, false, a success or a status below 400 where a
        request succeeded, ``"worker"`` the replica that served it, ``"requests"`` the list of
        requests in a larger object. ``{"worker": "pod"}`` alone says which column names the
        replica in a file of any format, and ``{"run": 2}`` which of a benchmark's runs is read.
    bad_rows : {"refuse", "skip"}, default "refuse"
        What becomes of a row that cannot be read, such as one with an empty or negative cell: an
        error, or the row is skipped and counted.
    block_hashes : bool, default False
        Whether to hold the hashes of prompts, 8 bytes a block and some 150 a request.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        No format fits, a column is missing, a row cannot be read, no request is left, or none has
        the worker that ``columns`` name.
    UnknownNameError, InvalidTypeError, InvalidValueError
        No format of the name given, or columns that do not say what is read.
    """
    found = read_rows(path, format, columns, bad_rows=bad_rows, block_hashes=block_hashes)
    facts, arrays = found.facts, found.arrays
    kept = np.flatnonzero((arrays["prompt_lengths"] > 0) & (arrays["output_lengths"] > 0))
    empty = len(found.ticks) - len(kept)
    if not len(kept):
        left_out = "".join(f"{count} {why}, " for why, count in facts["left_out"].items())
        skipped = f", {facts['skipped']}" if facts["skipped"] else ""
        raise FileFormatError(
            path,
            f"no request is left of {facts['rows']} ({facts['failed']} failed, {left_out}"
            f"{facts['without_output']} without output length, "
            f"{empty - facts['without_output']} empty{skipped})",
        )
    workers = arrays.get("workers")
    if workers is not None and all(one is None for one in workers[kept]):
        if columns and "worker" in columns:
            reason = f"no request says which worker served it: {columns['worker']!r} is missing"
            raise FileFormatError(path, reason)
        del arrays["workers"]
    first = found.ticks[kept[0]]
    between = found.between or [np.zeros(0, np.float32)] * len(found.ticks)
    return RequestLog(
        source=name_of(path),
        arrival_times=np.array([(one - first) / TICKS_PER_SECOND for one in found.ticks]),
        **arrays,
        inter_token_times=np.concatenate(between),
        inter_token_offsets=np.cumsum([0, *map(len, between)]),
        dropped_empty=empty,
        **facts,
    ).select(kept)


def name_of(path: str | os.PathLike[str]) -> str:
    """Name of a file, as it can be shown."""
    return printable(os.path.basename(os.fsdecode(path)))


def arrivals_note(unit: str | None, span: float, origin: str = "second 0") -> str:
    """Say in which unit a file has arrivals, and how many seconds they span."""
    if unit is None:
        return f"no arrival times, all at {origin}"
    return f"arrivals are {unit if unit == DATES else f'in {unit}'} and span {span:,.6g} s"
