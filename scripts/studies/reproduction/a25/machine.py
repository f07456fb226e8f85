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
from studies.reproduction.declaration import Cause

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

CONSTANTS = (
    f"d0 = {1e3 * D0:.2f} ms, d1 = {1e6 * D1:.3f} us, C = {MEMORY_LIMIT:,} tokens from the data "
    "sheets of Llama-2-7B and the A100, as the paper prints none"
)


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

MACHINE_CAUSE = Cause(
    ("memory size not stated", "batch time", "rule not stated"),
    "The text of the paper states no d0, d1, C and no cap on prompts, and thresholds hang on all "
    "of them. With twice the memory, {memory=243500} hold. With batch times of a ten times larger "
    "model every rate of the paper is beyond what any of the three can serve, and latencies are a "
    "minute to two hours: {batch-time=llama-2-70b-a100-tp1} hold with tensor parallel 1, "
    "{batch-time=llama-2-70b-a100-tp2} with 2, so a lead hangs on the load that the machine "
    "makes of a rate. What other thresholds, other baselines and a roofline batch time give is "
    "said above.",
)
"""Why Figures 7 and 11 to 14 come out as they do."""
