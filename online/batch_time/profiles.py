"""Rounds from operator profiles in the format that Vidur publishes.

In each layer a round takes the operators of `mlp.csv` at the next larger profiled number of tokens,
one or two attention kernels of `attention.csv`, and with tensor parallelism two all-reduces of
`all_reduce.csv` with an overhead of 20 microseconds each. All times are medians, in milliseconds in
the files. The processor's work between rounds is not included.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from instances import FileFormatError, InvalidValueError
from instances.batch_time import BatchTime
from instances.validation import as_number

from .measurements import Measurements, csv_rows, round_of

_ATTENTION_OPERATORS = ["input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj"]
_MLP_OPERATORS = ["post_attention_layernorm", "mlp_up_proj", "mlp_act", "mlp_down_proj", "add"]
DENSE = (*_ATTENTION_OPERATORS, *_MLP_OPERATORS)
"""Operators of a layer that work on the tokens processed."""

BYTES_A_NUMBER = 2
ALL_REDUCES, ALL_REDUCE_OVERHEAD = 2, 0.020
"""All-reduces of a layer, and milliseconds of each beyond the profile."""

MIXED_DECODES, MIXED_PROMPTS = 8, 8
"""Number of decodes, and of prompts, spread evenly over the profile, that form mixed rounds."""

DECODES = (1, 8, 32, 48, 64, 96, 128, 192, 256)
KV_TOKENS = (32, 128, 512)
PROMPTS = (16, 64, 128, 200, 256, 384, 512, 700, 1024, 1500, 2048, 3000, 4096)
PAST = (0, 512)
"""Numbers of decoding requests, KV tokens of each, prompt tokens, and tokens processed before: the
rounds of `rounds_of`."""


class Attention(NamedTuple):
    """Work of an attention kernel: requests, prompt tokens of each, KV tokens before."""

    requests: int
    prompt: int
    kv_tokens: int


@dataclass(frozen=True)
class Profiles:
    """Seconds of all layers, by the work done.

    Attributes
    ----------
    dense : Mapping[int, float]
        Seconds by tokens processed, including all-reduces.
    decodes, prompts : Mapping[Attention, float]
        Seconds of attention of decoding requests and of prompts.
    """

    dense: Mapping[int, float]
    decodes: Mapping[Attention, float]
    prompts: Mapping[Attention, float]

    @classmethod
    def read(
        cls, folder: str | os.PathLike[str], tensor_parallel: int = 1, layers: int = 80
    ) -> Profiles:
        """Read ``mlp.csv``, ``attention.csv`` and, above one GPU, ``all_reduce.csv``.

        Raises
        ------
        OSError
            A file cannot be read.
        FileFormatError
            A column is missing, a cell is not a number, or no row is for that many GPUs.
        """
        base = Path(folder)
        dense: dict[int, list[float]] = {}
        width = 0
        path = base / "mlp.csv"
        for row in _rows(path, "num_tensor_parallel_workers", tensor_parallel):
            width = int(_number(row, "n_embd", path))
            seconds = sum(_number(row, f"time_stats.{one}.median", path) for one in DENSE)
            dense.setdefault(int(_number(row, "num_tokens", path)), []).append(seconds)
        if tensor_parallel > 1:
            path = base / "all_reduce.csv"
            reduces: dict[int, list[float]] = {}
            for row in _rows(path, "num_workers", tensor_parallel):
                size = int(_number(row, "size", path))
                seconds = _number(row, "time_stats.all_reduce.median", path)
                reduces.setdefault(size, []).append(seconds)
            sizes = sorted(reduces)
            for tokens, known in dense.items():
                place = min(bisect_left(sizes, tokens * width * BYTES_A_NUMBER), len(sizes) - 1)
                one = float(np.median(reduces[sizes[place]])) + ALL_REDUCE_OVERHEAD
                dense[tokens] = [seconds + ALL_REDUCES * one for seconds in known]
        path = base / "attention.csv"
        kernels: dict[bool, dict[Attention, list[float]]] = {False: {}, True: {}}
        for row in _rows(path, "num_tensor_parallel_workers", tensor_parallel):
            of_prompts = row["is_prefill"] == "True"
            name = "attn_prefill" if of_prompts else "attn_decode"
            seconds = sum(
                _number(row, f"time_stats.{one}.median", path)
                for one in (name, "attn_output_reshape")
            )
            columns = ("batch_size", "prefill_chunk_size", "kv_cache_size")
            work = Attention(*[int(_number(row, one, path)) for one in columns])
            kernels[of_prompts].setdefault(work, []).append(seconds)

        def each(table: Mapping[Attention, list[float]]) -> dict[Attention, float]:
            return {one: layers * 1e-3 * float(np.median(table[one])) for one in sorted(table)}

        total = {one: layers * 1e-3 * float(np.median(dense[one])) for one in sorted(dense)}
        return cls(total, each(kernels[False]), each(kernels[True]))

    def rounds(self) -> Measurements:
        """Return a round for each profiled attention kernel, and mixed rounds of some.

        Raises
        ------
        InvalidValueError
            No kernel lies within the profiled numbers of tokens.
        """
        sizes = list(self.dense)
        rows = []
        for decode, prompt in self._pairs():
            requests = decode.requests if decode else 0
            kv_tokens = decode.requests * decode.kv_tokens if decode else 0
            x, y = (prompt.prompt, prompt.kv_tokens) if prompt else (0, 0)
            if requests + x > sizes[-1]:
                continue
            seconds = self.dense[sizes[bisect_left(sizes, requests + x)]]
            seconds += self.decodes[decode] if decode else 0.0
            seconds += self.prompts[prompt] if prompt else 0.0
            rows.append((requests + x, kv_tokens + x + y, seconds, requests, x * x, x * y))
        if not rows:
            reason = "hold no round within the numbers of tokens that were profiled"
            raise InvalidValueError("batch time", "profiles", len(sizes), reason)
        return Measurements(*np.array(rows, dtype=np.float64).T)

    def _pairs(self) -> Iterator[tuple[Attention | None, Attention | None]]:
        for one in self.decodes:
            yield one, None
        for one in self.prompts:
            yield None, one
        for decode in _evenly(self.decodes, MIXED_DECODES):
            for prompt in _evenly(self.prompts, MIXED_PROMPTS):
                yield decode, prompt


def rounds_of(model: BatchTime) -> Measurements:
    """Return rounds of every regime under a batch time: few and many decodes, prompts, both."""
    decoding = [(count, count * each) for count in DECODES for each in KV_TOKENS]
    prompts = [(x, y) for x in PROMPTS for y in PAST]
    pairs = [(one, (0, 0)) for one in decoding] + [((0, 0), one) for one in prompts]
    pairs += product(decoding[1::4], prompts[::2])
    rows = []
    for (requests, kv_tokens), (x, y) in pairs:
        memory = kv_tokens + x + y
        seconds = model.durations(round_of(requests, memory, x, x * x, x * y))[0]
        rows.append((requests + x, memory, seconds, requests, x * x, x * y))
    return Measurements(*np.array(rows, dtype=np.float64).T)


def _evenly(table: Mapping[Attention, float], count: int) -> Iterator[Attention]:
    return islice(table, 0, None, max(1, len(table) // count))


def _rows(path: Path, column: str, value: int) -> Iterator[dict[str, str]]:
    """Yield the rows whose column has this value."""
    found = False
    for _, row in csv_rows(path):
        if _number(row, column, path) == value:
            found = True
            yield row
    if not found:
        raise FileFormatError(path, f"has no row with {column} = {value}")


def _number(row: Mapping[str, str], column: str, path: Path) -> float:
    if column not in row:
        raise FileFormatError(path, f"column {column!r} is missing")
    try:
        return as_number(float(row[column] or "nan"), None, column, minimum=0)
    except ValueError:
        reason = f"{column} {row[column]!r} is not a number in its range"
        raise FileFormatError(path, reason) from None
