"""Rows held column by column: 40 bytes each, and 32 more where the log measured something."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from sys import intern
from typing import Any

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray

from .row import MOST_INTER_TOKEN_TIMES, TICKS_PER_SECOND, Measured, TraceRow

PART = 10**12
"""Ticks do not fit 64 bits: seconds, 10^-12 s and 10^-24 s are held apart."""


class HeldRows:
    """Rows in the order in which they came.

    Parameters
    ----------
    most_inter_token_times : int, default MOST_INTER_TOKEN_TIMES
        Times between tokens to hold. Those of a row are held as a whole or not at all.

    Notes
    -----
    The arrays that are given out look at what is held: nothing can be appended after that.
    """

    def __init__(self, most_inter_token_times: int = MOST_INTER_TOKEN_TIMES) -> None:
        self._most = most_inter_token_times
        self._times = [array("q") for _ in range(3)]
        self._numbers = array("q")
        self._lengths = array("i"), array("i")
        # Latency, time to first token, mean time between tokens; empty until a row has one.
        self._measured: tuple[array[float], ...] | None = None
        self._ends = array("q")
        self._between = array("f")
        # Columns of `RequestLog` that few logs have, empty until a row has one.
        self._rare: dict[str, list[Any]] = {}
        self.is_cut = False

    def __len__(self) -> int:
        return len(self._numbers)

    def append(self, row: TraceRow) -> None:
        """Hold a row."""
        seconds, rest = divmod(row.ticks, TICKS_PER_SECOND)
        part, rest = divmod(rest, PART)
        for column, value in zip(self._times, (seconds, part, rest), strict=True):
            column.append(value)
        self._lengths[0].append(row.prompt_tokens)
        self._lengths[1].append(row.output_tokens)
        self._numbers.append(row.number)
        self._append_rare("workers", None if row.worker is None else intern(row.worker))
        self._append_rare("prompt_blocks", row.blocks)
        if row.measured is not None:
            self._append_measured(row.measured)
        elif self._measured is not None:
            self._append_measured(Measured())

    def _append_rare(self, name: str, value: Any) -> None:
        if value is not None and name not in self._rare:
            self._rare[name] = [None] * (len(self) - 1)
        if name in self._rare:
            self._rare[name].append(value)

    def _append_measured(self, measured: Measured) -> None:
        if self._measured is None:
            before = len(self) - 1
            self._measured = tuple(array("d", [math.nan]) * before for _ in range(3))
            self._ends = array("q", [0]) * before
        latency, first, mean = self._measured
        latency.append(_or_nan(measured.latency))
        first.append(_or_nan(measured.time_to_first_token))
        times = measured.inter_token_times
        if times is not None and len(times):
            known = np.asarray(times, np.float64)
            # Between chunks of several tokens there are fewer times than tokens.
            mean.append(float(known.sum()) / max(1, self._lengths[1][-1] - 1))
            if self.is_cut or len(self._between) + len(known) > self._most:
                self.is_cut = True
            else:
                self._between.frombytes(known.astype(np.float32).tobytes())
        else:
            mean.append(_or_nan(measured.mean_inter_token_time))
        self._ends.append(len(self._between))

    def order(self) -> IntArray:
        """Positions in order of time; rows of equal time stay in the order of the file."""
        return np.lexsort([_seen(column) for column in reversed(self._times)])

    def in_order(self) -> Iterator[TraceRow]:
        """The rows in order of time, without what they measured and the hashes of prompts."""
        workers = self._rare.get("workers")
        for k in self.order().tolist():
            seconds, part, rest = (column[k] for column in self._times)
            ticks = (seconds * PART + part) * PART + rest
            prompt, output = self._lengths
            worker = None if workers is None else workers[k]
            yield TraceRow(self._numbers[k], ticks, prompt[k], output[k], worker=worker)

    def seconds(self) -> FloatArray:
        """Seconds since the earliest row, shape (n,)."""
        if not len(self):
            return np.zeros(0)
        first = self.order()[0]
        whole, part, rest = (_seen(column) - column[first] for column in self._times)
        seconds: FloatArray = whole + (part + rest / PART) / PART
        return seconds

    def arrays(self) -> dict[str, Any]:
        """Fields of `RequestLog` by their names; their rows are those of the file, in its order."""
        prompts, outputs = (_seen(column).astype(np.int64) for column in self._lengths)
        latencies = first_tokens = means = np.full(len(self), np.nan)
        offsets = np.zeros(len(self) + 1, np.int64)
        if self._measured is not None:
            latencies, first_tokens, means = (_seen(column) for column in self._measured)
            offsets[1:] = self._ends
        # The tokens after the first come between it and the end.
        with np.errstate(divide="ignore", invalid="ignore"):
            has_between = (outputs > 1) & (latencies >= first_tokens)
            derived = np.where(has_between, (latencies - first_tokens) / (outputs - 1), np.nan)
        return {
            "arrival_times": self.seconds(),
            "prompt_lengths": prompts,
            "output_lengths": outputs,
            "latencies": latencies,
            "times_to_first_token": first_tokens,
            "mean_inter_token_times": np.where(np.isnan(means), derived, means),
            "inter_token_times": _seen(self._between),
            "inter_token_offsets": offsets,
            "row_numbers": _seen(self._numbers),
            **{name: np.fromiter(held, object) for name, held in self._rare.items()},
        }


def _seen(column: array[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(column, column.typecode) if len(column) else np.zeros(0, column.typecode)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
