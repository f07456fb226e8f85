"""Tokens that the simulator's machine processes, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

import online
from online.simulation.machine import Machine

Step: TypeAlias = dict[int, int]


@contextmanager
def watched(steps: list[Step]) -> Iterator[None]:
    """Write down which tokens the simulator's machine processes in each round."""
    original = Machine.advance

    def advance(self: Machine, decision: online.Decision, *rest: Any) -> Any:
        chunks = self._chunks(decision)
        held = set(decision.hold)
        left = {i: one.prompt_left for i, one in self.running.items() if i not in held}
        before = self.batch.round_index
        result = yield from original(self, decision, *rest)
        for _ in range(self.batch.round_index - before):
            step = {i: chunks.get(i, prompt or 1) for i, prompt in left.items()}
            left = {i: max(0, prompt - step[i]) for i, prompt in left.items()}
            steps.append({i: tokens for i, tokens in step.items() if tokens})
        return result

    with patch.object(Machine, "advance", advance):
        yield
