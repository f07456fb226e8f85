"""A log as arrays or a frame: the requests in order of arrival, and what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.errors import InvalidValueError
from instances.validation import as_integer, as_number, decimal

from .cells import DATES, SkippedRows
from .prefixes import shared_prefixes

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False, kw_only=True)
class LogFacts:
    """Facts about a file of requests and about its rows that are left out.

    Attributes
    ----------
    source : str
        The file's name.
    format : str
        Format that it was read as.
    has_arrival_times : bool
        False for a file without any; all its requests arrive at 0.
    left_out : Mapping[str, int]
        Requests that are left out, by reason: failed or broken off, without output length, of a
        warm-up, or spans that count the tokens of others.
    out_of_order : int
        Requests that went back in time.
    time_unit : str or None
        Unit in which the file has arrivals, or ``"dates"``; None where it has none.
    note : str or None
        Assumptions made in reading it.
    skipped : SkippedRows
        Rows left out because they cannot be read, by reason.
    """

    source: str
    format: str
    has_arrival_times: bool = True
    left_out: Mapping[str, int] = field(default_factory=dict)
    out_of_order: int = 0
    time_unit: str | None = None
    note: str | None = None
    skipped: SkippedRows = field(default_factory=SkippedRows)

    def arrivals_note(self, span: float) -> str:
        """Say in which unit the file has arrivals, and how many seconds they span."""
        unit = self.time_unit
        if unit is None:
            return "no arrival times, all requests at 0"
        return f"arrivals are {unit if unit == DATES else f'in {unit}'} and span {span:,.6g} s"


@dataclass(frozen=True, eq=False, kw_only=True)
class RequestLog(LogFacts):
    """Requests of a log or trace in order of arrival, and what became of its rows.

    Attributes
    ----------
    arrival_times : float64 array, shape (n,)
        Seconds since the first request, to the nanosecond.
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
    dropped_empty : int
        Left out because they have no prompt or no output tokens.
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
    dropped_empty: int = 0
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
    def dropped(self) -> str:
        """Numbers of rows that are left out, by reason."""
        counts = {"empty": self.dropped_empty, "skipped": len(self.skipped)}
        counts = {**self.left_out, **counts}
        return ", ".join(f"{count} {why}" for why, count in counts.items() if count)

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that have an entry per request."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: column
            for name, column in columns.items()
            if isinstance(column, np.ndarray) and not name.startswith("inter_token")
        }

    @property
    def frame(self) -> pandas.DataFrame:
        """A row per request; ``attrs`` has the file, its format and the unit of its arrivals."""
        import pandas

        found = pandas.DataFrame(self._columns())
        attributes = ("source", "format", "time_unit", "note")
        found.attrs |= {name: getattr(self, name) for name in attributes}
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
        columns: dict[str, Any] = {name: one[places] for name, one in self._columns().items()}
        return replace(
            self,
            inter_token_times=self.inter_token_times[begins + np.arange(len(begins))],
            inter_token_offsets=np.concatenate([[0], np.cumsum(counts)]),
            **columns,
        )

    def window(
        self,
        start_seconds: float = 0.0,
        duration_seconds: float | None = None,
        max_requests: int | None = None,
    ) -> RequestLog:
        """The requests that arrive in a window; their times stay those since the first of the log.

        Parameters
        ----------
        start_seconds, duration_seconds : float, float or None
            The window, closed below and open above; None runs to the end.
        max_requests : int or None, default None
            Most requests that it holds.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            A number out of range.
        """
        start, end = as_number(start_seconds, None, "start_seconds", minimum=0), np.inf
        if duration_seconds is not None:
            length = as_number(duration_seconds, None, "duration_seconds", above=0)
            end = float(decimal(start) + decimal(length))
        if max_requests is not None:
            as_integer(max_requests, None, "max_requests", minimum=1)
        first, last = np.searchsorted(self.arrival_times, [start, end])
        return self.select(np.arange(len(self))[first:last][:max_requests])

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
        if self.dropped:
            parts[0] += f" ({self.dropped})"
        if self.out_of_order:
            parts.append(f"sorted, {self.out_of_order} out of order")
        parts.append(self.arrivals_note(float(self.arrival_times[-1])))
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
