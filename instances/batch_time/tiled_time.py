"""A batch time by a table over the number of tokens processed, plus the time of attention."""

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
    """Batch time: seconds of a round = table entry for the tokens processed + attention.

    GPU kernels work in tiles: the number of tokens processed is rounded up to a multiple of
    ``tile``, and the table is interpolated there. Two entries one tile apart make a step. Below the
    first entry the time is constant, and beyond the last it continues with the last slope. The
    table may decrease from one entry to the next, as measured tables do.

    Attention adds these seconds:

    - ``kernel`` if some request decodes, and ``kernel`` again if some request processes its prompt;
    - ``kv_token`` for each KV token in the cache, except those of requests that pause;
    - ``prompt_square`` x^2 + ``prompt_past`` x y for each request that processes x tokens of its
      prompt in the round and has y tokens processed before.

    Parameters
    ----------
    tokens : Sequence[int]
        Token counts of the table: increasing multiples of ``tile`` above 0, at least two.
    seconds : Sequence[float]
        Seconds of a round for each entry of ``tokens``, > 0. The last is not below the one before.
    tile : int, default 1
        Tokens per tile, >= 1.
    kernel, kv_token, prompt_square, prompt_past : float, default 0.0
        Seconds of attention, as above, >= 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The table has too few entries, or entries out of order or out of range.
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
            raise InvalidValueError("batch time", "tokens", self.tokens, "are not tile multiples")
        if self.seconds[-1] < self.seconds[-2]:
            raise InvalidValueError("batch time", "seconds", self.seconds[-2:], "fall at the end")

    def at(self, tokens: float) -> float:
        """Return the seconds of a round that processes ``tokens`` tokens, without attention."""
        # Convert to int: ``tokens`` may be a fraction if it is a measured mean over rounds.
        tiles = int(-(-tokens // self.tile))
        if tiles < len(self._by_tiles):
            return self._by_tiles[tiles]
        last, slope = self._beyond
        return last + slope * (tiles * self.tile - self.tokens[-1])

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Return the seconds of each round of a batch, shape (stretch.rounds,)."""
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
        """Seconds of a round without attention for 0, 1, 2, ... tiles, up to the table's end."""
        places = np.arange(self.tokens[-1] // self.tile + 1) * self.tile
        found: list[float] = np.interp(places, self.tokens, self.seconds).tolist()
        return found

    @cached_property
    def _beyond(self) -> tuple[float, float]:
        (x, x1), (y, y1) = self.tokens[-2:], self.seconds[-2:]
        return y1, (y1 - y) / (x1 - x)
