"""Batch-time models of named hardware, with where their figures come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instances.errors import InvalidValueError, UnknownNameError

from .models import AffineTime
from .tiled_time import TiledTime


@dataclass(frozen=True, slots=True)
class Preset:
    """A model on given hardware.

    Attributes
    ----------
    name : str
        How it is asked for.
    batch_time : AffineTime or TiledTime
        Seconds of a round.
    memory_limit : int
        Capacity M of the KV cache, tokens.
    """

    name: str
    batch_time: AffineTime | TiledTime
    memory_limit: int


LLAMA_2_70B_2XA100 = Preset("llama-2-70b-2xa100", AffineTime(0.050, 0.28e-3, 0.11e-6), 16_492)
"""Llama-2-70B on two A100s, tensor parallel 2: [J25] Section 5.2, [W25] Section 7.

A round lasts 50 ms + 0.28 ms a processed token + 0.11 microseconds a resident KV token. The three
are an affine fit over the operator profiles that Vidur publishes for this model and hardware; its
mean absolute percentage error is 5 to 12 % depending on the regime (decode only, mixed, prefill
only). It was cross-checked against the measurements published with splitwise-sim. It is a fit and
no measurement: a difference between policies smaller than that error says nothing about hardware.
M = 16,492 is the capacity that [J25] and [W25] state.
"""

_SIZES = (
    8,
    16,
    24,
    32,
    48,
    64,
    80,
    96,
    112,
    128,
    136,
    160,
    192,
    224,
    256,
    264,
    320,
    384,
    392,
    448,
    512,
    520,
    640,
    768,
    1024,
    1280,
    1536,
    2048,
    2560,
    3072,
    3584,
    4096,
)
"""Tokens processed."""

_ONE = (
    0.09128,
    0.09276,
    0.09288,
    0.09336,
    0.09432,
    0.09392,
    0.10952,
    0.11088,
    0.11056,
    0.10852,
    0.16120,
    0.16184,
    0.16660,
    0.17216,
    0.17852,
    0.24436,
    0.25312,
    0.25528,
    0.31976,
    0.32320,
    0.32676,
    0.40676,
    0.40940,
    0.49644,
    0.67876,
    0.77064,
    0.94512,
    1.23214,
    1.56836,
    1.85824,
    2.18768,
    2.46218,
)
"""Seconds of 80 layers on one GPU each."""

_TWO = (
    0.05680,
    0.05332,
    0.05540,
    0.06044,
    0.05912,
    0.06464,
    0.07140,
    0.07168,
    0.07248,
    0.07496,
    0.09312,
    0.09500,
    0.09552,
    0.10128,
    0.10372,
    0.13448,
    0.13972,
    0.14148,
    0.17832,
    0.18184,
    0.18540,
    0.21832,
    0.22420,
    0.27264,
    0.37180,
    0.41984,
    0.51480,
    0.67668,
    0.82936,
    1.01056,
    1.17572,
    1.31294,
)
"""Seconds of 80 layers on two GPUs each, all-reduces included."""


_LARGE = range(640, 3968, 128)
"""Where kernels take another tile of 128 tokens, beyond the entries that tell."""


def _profiled(seconds: tuple[float, ...], heads: int) -> TiledTime:
    """Attention of two GPUs, times what each has of the heads on fewer."""
    table = dict(zip(_SIZES, seconds, strict=True))
    for edge in _LARGE:
        table[edge + 128] = round(float(np.interp(edge + 128, _SIZES, seconds)), 6)
        table[edge + 8] = table[edge + 128]
    sizes = sorted(table)
    return TiledTime(
        *(sizes, [table[one] for one in sizes], 8),
        kernel=1.34e-3 * heads,
        kv_token=0.126e-6 * heads,
        prompt_square=11.2e-9 * heads,
        prompt_past=10e-9 * heads,
    )


LLAMA_2_70B_A100_TP2 = Preset("llama-2-70b-a100-tp2", _profiled(_TWO, 1), 16_492)
"""Llama-2-70B on two A100s, tensor parallel 2, from the operator profiles that Vidur publishes.

The table is the sum of the medians of `mlp.csv` (projections, MLP, norms, rotary embedding) over
80 layers, with two all-reduces a layer from `all_reduce.csv` and 20 microseconds overhead each, at
32 numbers of tokens (microsoft/vidur, MIT licence); beyond 640 tokens entries lie further apart
than the steps of 128 tokens that kernels have, and the line between them smooths those. Decoding
costs 1.34 ms and 0.126 microseconds a KV token. Prompts: 11.2 ns x^2 + 10 ns x y for x tokens
after y, from the same repository's attention profile of these heads (64 of queries, 8 of keys, on
two GPUs); at 12 places of it, x from 96 to 4,096 and y from 0 to 3,968, that is off by up to 1.2 %
of the round.

Against Vidur itself (commit 7d47513), the same requests, memory and scheduler, mean seconds of a
batch are off by 0.9 to 1.7 %. Not in it: what the processor does between rounds. It is a model of a
simulator's profiles, and no measurement of a server. M is that of `LLAMA_2_70B_2XA100`.
"""

LLAMA_2_70B_A100_TP1 = Preset("llama-2-70b-a100-tp1", _profiled(_ONE, 2), 16_492)
"""The same with tensor parallel 1: each layer on one GPU, no all-reduce, 80 layers in series.

Vidur's default, which no machine of one A100 can be: the weights alone are 140 GB. A pipeline over
two has these round times where one batch runs at a time. The table is `mlp.csv` for tensor parallel
1. Attention is taken to be twice that of tensor parallel 2, as each GPU has all heads; the profile
has none for 1. With it the average latencies of [J25] Table 1 come out as printed, which says "two
linked A100 GPUs": that the paper ran Vidur's default is an inference.
"""

_PRESETS = {
    preset.name: preset
    for preset in (LLAMA_2_70B_2XA100, LLAMA_2_70B_A100_TP1, LLAMA_2_70B_A100_TP2)
}


def preset_names() -> list[str]:
    """The presets' names, sorted."""
    return sorted(_PRESETS)


def preset(name: str) -> Preset:
    """A preset by name.

    Raises
    ------
    UnknownNameError
        No such preset; the message lists those that are.
    """
    if name not in _PRESETS:
        raise UnknownNameError("batch-time preset", name, preset_names())
    return _PRESETS[name]


AFFINE = "affine:d0,d1,d2"
"""How an affine batch time is written."""


def parse_batch_time(text: str) -> tuple[AffineTime | TiledTime, int | None]:
    """A batch time as command lines take it: a preset's name, or ``affine:d0,d1,d2`` in seconds.

    Returns
    -------
    tuple[AffineTime or TiledTime, int | None]
        (batch_time, memory_limit) : the latter the preset's.

    Raises
    ------
    UnknownNameError
        Neither; the message lists what is known.
    InvalidValueError
        Coefficients that are no numbers, not three of them, or out of range.
    """
    kind, colon, coefficients = text.partition(":")
    if colon and kind == "affine":
        try:
            numbers = [float(one) for one in coefficients.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) != 3:
            reason = (
                f"is not of the form {AFFINE}: three numbers, the seconds of a round, of each "
                "token processed and of each token held; 0 where one of the last two costs nothing"
            )
            raise InvalidValueError(None, "batch time", text, reason)
        return AffineTime(*numbers), None
    if text not in _PRESETS:
        raise UnknownNameError("batch time", text, [*preset_names(), AFFINE])
    found = preset(text)
    return found.batch_time, found.memory_limit
