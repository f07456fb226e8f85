"""A batch time in steps: a table over tokens in tiles, and attention."""

from __future__ import annotations

import itertools
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidValueError
from instances.problem.batches import BatchStretch
from instances.validation import check_ranges, ranged


@dataclass(frozen=True)
class TiledTime:
    """Seconds = a table over the tokens processed, in whole tiles, + attention.

    Kernels work in tiles: tokens processed are rounded up to a multiple of ``tile``, and the table
    is interpolated there. Two neighbouring entries a tile apart are a step. Below the first entry
    the first holds, beyond the last the slope of the last piece goes on. The table may fall from
    one entry to the next, as measured ones do.

    Attention adds ``kernel`` for the requests that decode, if there are any, and once more for
    those that process prompts; ``kv_token`` for each KV token of the batch, held requests excluded;
    and ``prompt_square`` x^2 + ``prompt_past`` x y for each request that processes x tokens of its
    prompt after y others.

    Parameters
    ----------
    tokens : Sequence[int]
        Increasing multiples of ``tile`` above 0, at least two.
    seconds : Sequence[float]
        As many, each > 0, the last not below the one before it.
    tile : int, default 1
        Tokens, >= 1.
    kernel, kv_token, prompt_square, prompt_past : float, default 0.0
        Seconds, >= 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        Entries out of order, out of range or too few.
    """

    tokens: tuple[int, ...] = ranged(minimum=1)
    seconds: tuple[float, ...] = ranged(above=0)
    tile: int = ranged(1, minimum=1)
    _: KW_ONLY
    kernel: float = ranged(0.0, minimum=0)
    kv_token: float = ranged(0.0, minimum=0)
    prompt_square: float = ranged(0.0, minimum=0)
    prompt_past: float = ranged(0.0, minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "batch time")
        sizes = (len(self.tokens), len(self.seconds))
        if sizes[0] < 2 or sizes[0] != sizes[1]:
            reason = "are not two equal lengths of at least 2"
            raise InvalidValueError("batch time", "(len(tokens), len(seconds))", sizes, reason)
        if any(b <= a for a, b in itertools.pairwise(self.tokens)):
            raise InvalidValueError("batch time", "tokens", self.tokens, "do not increase")
        if any(one % self.tile for one in self.tokens):
            raise InvalidValueError("batch time", "tokens", self.tokens, "are not all whole tiles")
        if self.seconds[-1] < self.seconds[-2]:
            raise InvalidValueError("batch time", "seconds", self.seconds[-2:], "fall at the end")

    def at(self, tokens: float) -> float:
        """Seconds of a round that processes ``tokens`` tokens, without attention."""
        # Whole also where tokens are means over rounds, as measured ones may be.
        tiles = int(-(-tokens // self.tile))
        if tiles < len(self._by_tiles):
            return self._by_tiles[tiles]
        last, slope = self._beyond
        return last + slope * (tiles * self.tile - self.tokens[-1])

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds of each round, shape (stretch.rounds,)."""
        chunks, squares, past = stretch.chunk_tokens, stretch.chunk_squares, stretch.chunk_past
        later = self.at(stretch.later_tokens)
        later += self.kernel * ((stretch.requests > 0) + (chunks > 0))
        seconds = self.kv_token * stretch.batch_memory()
        first = seconds.item(0)
        if chunks:
            pasts = past + squares * np.arange(stretch.rounds, dtype=np.float64)
            seconds += later + (self.prompt_square * squares + self.prompt_past * pasts)
        else:
            seconds += later
        entered = stretch.new_requests
        if entered:
            dense = self.at(stretch.first_tokens)
            dense += self.kernel * ((stretch.requests > entered) + 1)
            prompts = self.prompt_square * (squares + stretch.new_squares)
            prompts += self.prompt_past * (past + stretch.new_past)
            seconds[0] = first + (dense + prompts)
        return seconds

    @cached_property
    def _by_tiles(self) -> list[float]:
        """Seconds by whole tiles, 0 and 1 alike, up to the last entry."""
        places = np.arange(self.tokens[-1] // self.tile + 1) * self.tile
        found: list[float] = np.interp(places, self.tokens, self.seconds).tolist()
        return found

    @cached_property
    def _beyond(self) -> tuple[float, float]:
        (x, x1), (y, y1) = self.tokens[-2:], self.seconds[-2:]
        return y1, (y1 - y) / (x1 - x)
