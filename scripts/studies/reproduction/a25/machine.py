"""The machine of [A25] Section 6: Llama-2-7B on one A100, from published numbers.

An iteration takes d0 + d1 * (tokens of the batch) seconds, and memory is C tokens. The paper states
no values of d0, d1 and C, and no cap on batches. Its times come from the simulator Vidur. Here the
numbers follow from data sheets alone, so they cannot be tuned to a result:

- d0, 6.6 ms: each iteration reads the weights once, at the full bandwidth of the memory.
- d1, 0.26 microseconds: it also reads the KV cache of each token of the batch.
- C, 121,750 tokens: nine tenths of the memory, Vidur's default, less the weights.
- Caps: a batch has at most 128 prompts, Vidur's default. The cap is 1,024 if one prompt at each
  stage (number of decoded tokens) is more than 128 prompts. A batch also has at most 4,096 tokens,
  Vidur's default. The default of Sarathi itself is 512 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from instances.arrays import FloatArray
from instances.batch_time import BatchStretch, BatchTime
from instances.batch_time.models import IterationTime

CONVERSATION_SHARES = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
"""Relative arrival rates of ten bins of 50 output tokens ([A25] Section 6.2)."""

WEIGHTS = 6_738_415_616
"""Number of parameters of Llama-2-7B."""

BYTES_A_NUMBER = 2
LAYERS, HIDDEN = 32, 4096
KV_BYTES = 2 * LAYERS * HIDDEN * BYTES_A_NUMBER
"""Bytes of key and value of a token: 512 KiB."""

MEMORY_BYTES = 80 * 2**30
MEMORY_SHARE = 0.9
BANDWIDTH = 2.039e12
"""Memory bandwidth of an A100 with 80 GB (SXM), bytes per second."""

PEAK = 312e12
"""Operations per second in half precision. A token takes two operations for each parameter."""

MEMORY_LIMIT = int((MEMORY_BYTES * MEMORY_SHARE - WEIGHTS * BYTES_A_NUMBER) / KV_BYTES)
D0 = WEIGHTS * BYTES_A_NUMBER / BANDWIDTH
D1 = KV_BYTES / BANDWIDTH
EQUATION_1 = IterationTime(D0, D1)

SMALL_CAP, LARGE_CAP = 128, 1024
TOKEN_CAP, SARATHI_CHUNK = 4096, 512


@dataclass(frozen=True)
class Roofline:
    """Batch time with two limits: max(d0 + d1 * KV tokens, token_seconds * tokens processed).

    [A25] Equation (1) has only the first limit, the bandwidth of memory. Rounds that process
    prompts are limited by arithmetic.

    Parameters
    ----------
    memory : IterationTime, default EQUATION_1
        Seconds for reading the weights and the KV cache.
    token_seconds : float, optional
        Seconds of arithmetic per processed token, at the peak speed of the GPU.
    """

    memory: IterationTime = EQUATION_1
    token_seconds: float = 2 * WEIGHTS / PEAK

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Return the seconds of each round, shape (stretch.rounds,)."""
        seconds = self.memory.durations(stretch)
        seconds[0] = max(seconds[0], self.token_seconds * stretch.first_tokens)
        seconds[1:] = seconds[1:].clip(min=self.token_seconds * stretch.later_tokens)
        return seconds


TIMES: dict[str, BatchTime] = {"equation 1": EQUATION_1, "roofline": Roofline()}
"""Batch times by name: the model of the paper, and another one to check results."""
