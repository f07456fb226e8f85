"""Rules of memory: tokens or blocks, the newest token of a request included or not.

The papers count tokens, and the token emitted in a round is held in that round. Engines hand out
blocks of several tokens, and write the token emitted in one step in the next. Let x be the tokens
stored: s + k at the k-th token where it is stored at once, s + k - 1 where it is stored next. A
request then holds ``block_size`` ceil(x / ``block_size``) tokens, and all of them together no more
than ``block_size`` floor(M / ``block_size``). A batch time is given the tokens stored: nobody reads
the rest of a block.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from instances.arrays import IntArray
from instances.errors import InvalidTypeError
from instances.validation import LARGEST_TOKEN_COUNT, check_ranges, chosen, ranged

Tokens = TypeVar("Tokens", int, IntArray)


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """Rule by which memory is counted.

    Parameters
    ----------
    block_size : int, default 1
        Tokens of a block; memory is handed out in whole blocks.
    emitted_token : {"now", "next"}, default "now"
        Whether a token is held in the round that emits it, or from the next round on, so that the
        last one never is.
    prompt_allocation : {"whole", "chunks"}, default "whole"
        Whether a prompt processed in chunks holds all of itself from its first chunk on, or what
        has been processed of it by the end of the round.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A block size that is no whole number >= 1, or another word.
    """

    block_size: int = ranged(1, minimum=1, maximum=LARGEST_TOKEN_COUNT)
    emitted_token: Literal["now", "next"] = chosen("now", "next")
    prompt_allocation: Literal["whole", "chunks"] = chosen("whole", "chunks")

    def __post_init__(self) -> None:
        check_ranges(self, "memory rule")

    @property
    def unstored(self) -> int:
        """Tokens emitted that are not stored yet: 0, or 1 where a token is stored next."""
        return int(self.emitted_token == "next")

    def blocks(self, tokens: int) -> int:
        """Blocks that hold ``tokens`` stored tokens."""
        return -(-tokens // self.block_size)

    def held(self, tokens: Tokens) -> Tokens:
        """Tokens that ``tokens`` stored tokens take up: whole blocks."""
        return -(-tokens // self.block_size) * self.block_size

    def limit(self, memory_limit: int) -> int:
        """Tokens of the usable blocks of a memory of M tokens."""
        return self.usable_blocks(memory_limit) * self.block_size

    def usable_blocks(self, memory_limit: int) -> int:
        """Blocks of a memory of M tokens."""
        return memory_limit // self.block_size

    @property
    def told(self) -> str:
        """Settings that differ from the papers' rule, for messages; empty where none does."""
        return ", ".join(
            f"{field.name} {getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )


TOKENS = MemoryRule()
"""The papers' rule: tokens, each held from the round that emits it."""

VLLM_BLOCKS = MemoryRule(16, "next", "chunks")
"""vLLM V1 with its default block size."""


def as_memory_rule(value: Any, owner: str | None) -> MemoryRule:
    """``value`` if it is a memory rule.

    Raises
    ------
    InvalidTypeError
        It is not one.
    """
    if not isinstance(value, MemoryRule):
        raise InvalidTypeError(owner, "memory_rule", value, "is not a MemoryRule")
    return value
