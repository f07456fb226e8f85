"""Batch times of named hardware with their sources, as text of a command, and in documents."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

import numpy as np

from instances.errors import InvalidTypeError, InvalidValueError, UnknownNameError

from .models import AffineTime
from .tiled_time import TiledTime

StorableTime: TypeAlias = AffineTime | TiledTime
Stored: TypeAlias = Sequence[float] | Mapping[str, Any]
"""Coefficients of an affine batch time, or the parameters of one in tiles by name."""


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
    batch_time: StorableTime
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

_LAYERS = (
    (8, 0.09128, 0.05680),
    (16, 0.09276, 0.05332),
    (24, 0.09288, 0.05540),
    (32, 0.09336, 0.06044),
    (48, 0.09432, 0.05912),
    (64, 0.09392, 0.06464),
    (80, 0.10952, 0.07140),
    (96, 0.11088, 0.07168),
    (112, 0.11056, 0.07248),
    (128, 0.10852, 0.07496),
    (136, 0.16120, 0.09312),
    (160, 0.16184, 0.09500),
    (192, 0.16660, 0.09552),
    (224, 0.17216, 0.10128),
    (256, 0.17852, 0.10372),
    (264, 0.24436, 0.13448),
    (320, 0.25312, 0.13972),
    (384, 0.25528, 0.14148),
    (392, 0.31976, 0.17832),
    (448, 0.32320, 0.18184),
    (512, 0.32676, 0.18540),
    (520, 0.40676, 0.21832),
    (640, 0.40940, 0.22420),
    (768, 0.49644, 0.27264),
    (1024, 0.67876, 0.37180),
    (1280, 0.77064, 0.41984),
    (1536, 0.94512, 0.51480),
    (2048, 1.23214, 0.67668),
    (2560, 1.56836, 0.82936),
    (3072, 1.85824, 1.01056),
    (3584, 2.18768, 1.17572),
    (4096, 2.46218, 1.31294),
)
"""Tokens processed, and seconds of 80 layers on one GPU each and on two, all-reduces included."""

_LARGE = range(640, 3968, 128)
"""Where kernels take another tile of 128 tokens, beyond the entries that tell."""


def _profiled(gpus: int) -> TiledTime:
    """Attention of two GPUs, times what each has of the heads on fewer."""
    heads, known = 2 // gpus, [row[0] for row in _LAYERS]
    table: dict[int, float] = {row[0]: row[gpus] for row in _LAYERS}
    seconds = list(table.values())
    for edge in _LARGE:
        table[edge + 128] = round(float(np.interp(edge + 128, known, seconds)), 6)
        table[edge + 8] = table[edge + 128]
    sizes = sorted(table)
    return TiledTime(
        sizes,
        [table[one] for one in sizes],
        tile=8,
        kernel=1.34e-3 * heads,
        kv_token=0.126e-6 * heads,
        prompt_square=11.2e-9 * heads,
        prompt_past=10e-9 * heads,
    )


LLAMA_2_70B_A100_TP2 = Preset("llama-2-70b-a100-tp2", _profiled(gpus=2), 16_492)
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

LLAMA_2_70B_A100_TP1 = Preset("llama-2-70b-a100-tp1", _profiled(gpus=1), 16_492)
"""The same with tensor parallel 1: each layer on one GPU, no all-reduce, 80 layers in series.

Vidur's default, which no machine of one A100 can be: the weights alone are 140 GB. A pipeline over
two has these round times where one batch runs at a time. The table is `mlp.csv` for tensor parallel
1. Attention is taken to be twice that of tensor parallel 2, as each GPU has all heads; the profile
has none for 1. With it the average latencies of [J25] Table 1 come out as printed, which says "two
linked A100 GPUs": that the paper ran Vidur's default is an inference.
"""

MEASURED = "measured.json"
"""Presets of today's machines, with their source and licence. Each is what
`online.batch_time.read_batch_time` makes of its key ``of``, to five significant digits."""


@functools.cache
def _presets() -> dict[str, Preset]:
    found = [LLAMA_2_70B_2XA100, LLAMA_2_70B_A100_TP1, LLAMA_2_70B_A100_TP2]
    text = (resources.files(__package__) / MEASURED).read_text("utf-8")
    for name, one in json.loads(text)["presets"].items():
        found.append(Preset(name, batch_time_of(one["batch_time"]), one["memory_limit"]))
    return {preset.name: preset for preset in found}


def preset_names() -> list[str]:
    """The presets' names, sorted."""
    return sorted(_presets())


def preset(name: str) -> Preset:
    """A preset by name.

    Raises
    ------
    UnknownNameError
        No such preset; the message lists those that are.
    """
    if name not in _presets():
        raise UnknownNameError("batch-time preset", name, preset_names())
    return _presets()[name]


AFFINE = "affine:d0,d1,d2"
"""The form in which an affine batch time is written."""


def parse_batch_time(text: str) -> tuple[StorableTime, int | None]:
    """Read a batch time from a command line: a preset's name, or ``affine:d0,d1,d2`` in seconds.

    Returns
    -------
    tuple[AffineTime or TiledTime, int | None]
        (batch_time, memory_limit); the memory limit of the preset, None for ``affine``.

    Raises
    ------
    UnknownNameError
        The text is neither; the message lists the presets.
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
    if text not in _presets():
        raise UnknownNameError("batch time", text, [*preset_names(), AFFINE])
    found = preset(text)
    return found.batch_time, found.memory_limit


def batch_time_document(time: StorableTime) -> Stored:
    """A batch time, JSON-ready."""
    if isinstance(time, AffineTime):
        return list(dataclasses.astuple(time))
    fields = dataclasses.asdict(time)
    return {name: list(one) if isinstance(one, tuple) else one for name, one in fields.items()}


def batch_time_of(document: Any) -> StorableTime:
    """The batch time that `batch_time_document` wrote.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        It did not write this.
    """
    try:
        if isinstance(document, Sequence) and not isinstance(document, str):
            return AffineTime(*document)
        return TiledTime(**document)
    except TypeError as error:
        # Also what parameters of another number or name raise.
        raise InvalidTypeError(None, "batch_time", document, "is none that was stored") from error
