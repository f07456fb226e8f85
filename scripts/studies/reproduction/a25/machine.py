"""The machine of [A25] Section 6: Llama-2-7B on one A100, as far as published figures give it.

The text of the paper states no d0, d1, C and no batch cap; its times come from the simulator Vidur.
What is taken instead follows from the data sheets alone, so nothing can be tuned:

- d0, 6.6 ms: the weights are read once an iteration, at the full bandwidth of the memory.
- d1, 0.26 microseconds: so is the KV cache of each token of the batch.
- C, 121,750 tokens: what the weights leave of nine tenths of the memory, Vidur's default share.
- Caps: 128 prompts a batch, Vidur's default; 1,024 where 128 leave no room for a threshold of one
  prompt a stage. 4,096 tokens a batch, Vidur's default, for all. 512 is Sarathi's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from instances.arrays import FloatArray
from instances.batch_time import BatchStretch, BatchTime
from instances.batch_time.models import IterationTime

CONVERSATION_SHARES = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
"""Relative arrival rates of ten bins of 50 output tokens ([A25] Section 6.2)."""

WEIGHTS = 6_738_415_616
"""Parameters of Llama-2-7B."""

BYTES_A_NUMBER = 2
LAYERS, HIDDEN = 32, 4096
KV_BYTES = 2 * LAYERS * HIDDEN * BYTES_A_NUMBER
"""Key and value of a token: 512 KiB."""

MEMORY_BYTES = 80 * 2**30
MEMORY_SHARE = 0.9
BANDWIDTH = 2.039e12
"""Bytes a second of an A100 with 80 GB (SXM)."""

PEAK = 312e12
"""Operations a second in half precision; a token takes two for each parameter."""

MEMORY_LIMIT = int((MEMORY_BYTES * MEMORY_SHARE - WEIGHTS * BYTES_A_NUMBER) / KV_BYTES)
D0 = WEIGHTS * BYTES_A_NUMBER / BANDWIDTH
D1 = KV_BYTES / BANDWIDTH
EQUATION_1 = IterationTime(D0, D1)

SMALL_CAP, LARGE_CAP = 128, 1024
TOKEN_CAP, SARATHI_CHUNK = 4096, 512


@dataclass(frozen=True)
class Roofline:
    """Seconds = max(d0 + d1 * KV tokens of the batch, seconds a token * tokens processed).

    What [A25] Equation (1) leaves out: prompts are limited by arithmetic, not by memory.

    Parameters
    ----------
    memory : IterationTime, default EQUATION_1
        The time of reading weights and KV cache.
    token_seconds : float, optional
        Arithmetic of a processed token at the processor's peak.
    """

    memory: IterationTime = EQUATION_1
    token_seconds: float = 2 * WEIGHTS / PEAK

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds of each round, shape (stretch.rounds,)."""
        seconds = self.memory.durations(stretch)
        seconds[0] = max(seconds[0], self.token_seconds * stretch.first_tokens)
        seconds[1:] = seconds[1:].clip(min=self.token_seconds * stretch.later_tokens)
        return seconds


TIMES: dict[str, BatchTime] = {"equation 1": EQUATION_1, "roofline": Roofline()}
"""Iteration times by name: that of the paper's model, and a second opinion."""
