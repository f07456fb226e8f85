"""Memory in blocks: what is held at a token of a request, by the definition of a rule."""

from __future__ import annotations

import numpy as np

from instances import Instance, MemoryRule


def held(rule: MemoryRule, prompt: int, token: int) -> int:
    """Tokens held at a token of a request, block by block."""
    stored = prompt + token - (rule.emitted_token == "next")
    blocks = 0
    while blocks * rule.block_size < stored:
        blocks += 1
    return blocks * rule.block_size


def usable(rule: MemoryRule, memory_limit: int) -> int:
    """Tokens of all whole blocks in the memory."""
    return memory_limit - memory_limit % rule.block_size


def drawn(rng: np.random.Generator, rule: MemoryRule) -> Instance:
    """A tiny instance that can run under the rule."""
    limit = int(rng.integers(2 * rule.block_size, 6 * rule.block_size + 8))
    pairs: list[tuple[int, int]] = []
    while len(pairs) < 3:
        prompt, output = map(int, rng.integers(1, limit, 2))
        if held(rule, prompt, output) <= usable(rule, limit):
            pairs.append((prompt, output))
    prompts, outputs = zip(*pairs, strict=True)
    return Instance.from_arrays(prompts, outputs, memory_limit=limit, memory_rule=rule)
