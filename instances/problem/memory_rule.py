"""Memory rules: how many tokens of the KV cache a request holds, counted in tokens or in blocks.

In the papers memory is counted in tokens, and a token emitted in a round is held in that round.
Engines allocate blocks of several tokens, and store a token in the step after the one that emits
it. Let x be the number of stored tokens of a request with a prompt of s tokens when it emits its
k-th token. x is s + k if the token is stored at once, and s + k - 1 if it is stored in the next
round. The request then holds ``block_size`` ceil(x / ``block_size``) tokens. All requests together
may hold at most ``block_size`` floor(M / ``block_size``) tokens. Batch times depend on the stored
tokens only, because the free part of a block is not read.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import numpy as np

from instances.arrays import IntArray
from instances.errors import InvalidTypeError
from instances.validation import LARGEST_TOKEN_COUNT, check_ranges, chosen, ranged

Tokens = TypeVar("Tokens", int, IntArray)


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """Rule by which the KV-cache memory of a request is counted.

    Parameters
    ----------
    block_size : int, default 1
        Tokens per block; memory is allocated in whole blocks.
    emitted_token : {"now", "next"}, default "now"
        Whether an output token takes memory in the round that emits it, or from the next round on.
        With "next" the last output token never takes memory.
    prompt_allocation : {"whole", "chunks"}, default "whole"
        How memory is allocated for a prompt that is processed in chunks: for the whole prompt at
        its first chunk, or in each round for the tokens processed so far.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        The block size is not a whole number >= 1, or a word is not one of the choices.

    Notes
    -----
    If a field is added to this class, `memory_translation` raises an error until it is extended,
    because its proofs must consider every field.
    """

    block_size: int = ranged(1, minimum=1, maximum=LARGEST_TOKEN_COUNT)
    emitted_token: Literal["now", "next"] = chosen("now", "next")
    prompt_allocation: Literal["whole", "chunks"] = chosen("whole", "chunks")

    def __post_init__(self) -> None:
        check_ranges(self, "memory rule")

    @property
    def unstored(self) -> int:
        """Number of emitted tokens not yet in memory: 1 if ``emitted_token`` is "next", else 0."""
        return int(self.emitted_token == "next")

    def blocks(self, tokens: int) -> int:
        """Return the number of blocks needed to store a number of tokens of one request."""
        return -(-tokens // self.block_size)

    def held(self, tokens: Tokens) -> Tokens:
        """Return the memory that a request with ``tokens`` stored tokens holds, in tokens.

        It is the number of stored tokens rounded up to whole blocks.
        """
        return -(-tokens // self.block_size) * self.block_size

    def limit(self, memory_limit: int) -> int:
        """Return the usable memory, in tokens: a memory limit M rounded down to whole blocks."""
        return memory_limit // self.block_size * self.block_size

    def limits(self, memory_limit: int, rounds: IntArray) -> IntArray:
        """Return the usable memory in each of the ``rounds``, in tokens."""
        return np.full(len(rounds), self.limit(memory_limit))

    def fullest(self, ends: IntArray) -> IntArray:
        """Return rounds of which one exceeds the usable memory if any round does.

        ``ends`` has the last round of each stretch of consecutive rounds of a request. Between
        these rounds the memory held only grows.
        """
        return np.unique(ends)

    @property
    def told(self) -> str:
        """Parameters that differ from their defaults, as text for messages; empty without any."""
        pairs = [(field, getattr(self, field.name)) for field in fields(self)]
        return ", ".join(f"{one.name} {value}" for one, value in pairs if value != one.default)


TOKENS = MemoryRule()
"""Memory rule of the papers: counted in tokens, each held from the round in which it is emitted."""

VLLM_BLOCKS = MemoryRule(16, "next", "chunks")
"""Memory rule of vLLM V1 with its default block size of 16 tokens."""


def as_memory_rule(value: Any, owner: str | None) -> MemoryRule:
    """Return ``value`` if it is a `MemoryRule`; raise an error otherwise.

    Raises
    ------
    InvalidTypeError
        The value is not a `MemoryRule`.
    """
    if not isinstance(value, MemoryRule):
        raise InvalidTypeError(owner, "memory_rule", value, "is not a MemoryRule")
    return value
