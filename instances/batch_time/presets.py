"""Presets, which are batch times of named hardware, and batch times as text and as JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

from instances.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from instances.registry import Registry

from .models import AffineTime
from .tiled_time import TiledTime

StorableTime: TypeAlias = AffineTime | TiledTime
Stored: TypeAlias = Sequence[float] | Mapping[str, Any]
"""JSON form of a batch time: coefficients of an `AffineTime`, or parameters of a `TiledTime`."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Batch time and memory of a language model on given GPUs.

    Attributes
    ----------
    name : str
        Name of the preset, for `preset`.
    batch_time : AffineTime or TiledTime
        Model of the seconds that a round takes.
    memory_limit : int
        Capacity M of the KV cache, tokens.
    what : str
        Description: the language model, the GPUs of a machine and, in brackets, the engine or the
        kind of fit.
    """

    name: str
    batch_time: StorableTime
    memory_limit: int
    what: str


FILES = ("papers.json", "measured.json")
"""Files with the presets and their sources. The presets of measured.json are the results of
`online.batch_time.read_batch_time` for their key ``of``, to five significant digits."""


@functools.cache
def _presets() -> Registry[Preset]:
    presets: Registry[Preset] = Registry("batch-time preset")
    for name in FILES:
        text = (resources.files(__package__) / name).read_text("utf-8")
        for name, one in json.loads(text)["presets"].items():
            time = batch_time_of(one["batch_time"])
            presets[name] = Preset(name, time, one["memory_limit"], one["what"])
    return presets


def preset_names() -> list[str]:
    """Return the names of all presets, sorted."""
    return _presets().names()


def preset(name: str) -> Preset:
    """Return the preset of a name: a batch time and the memory limit of its hardware.

    Raises
    ------
    UnknownNameError
        No preset has this name. The message lists the presets.
    """
    return _presets()[name]


AFFINE = "affine:d0,d1,d2"
"""Affine batch time as text: seconds d0 per round, d1 per token processed, d2 per token held."""


def parse_batch_time(text: str) -> tuple[StorableTime, int | None]:
    """Read a batch time from a command line: a preset's name, or ``affine:d0,d1,d2`` in seconds.

    Returns
    -------
    tuple[AffineTime or TiledTime, int | None]
        (batch_time, memory_limit). The memory limit is that of the preset, in tokens; None for
        ``affine``.

    Raises
    ------
    UnknownNameError
        The text has none of these forms. The message lists the presets.
    InvalidValueError
        The coefficients are not three numbers, or are out of range.
    """
    kind, colon, coefficients = text.partition(":")
    if colon and kind == "affine":
        try:
            numbers = [float(one) for one in coefficients.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) != 3:
            seconds = "seconds of a round, of each token processed, of each token held"
            reason = f"is not of the form {AFFINE}: {seconds} (0 where they cost nothing)"
            raise InvalidValueError(None, "batch time", text, reason)
        return AffineTime(*numbers), None
    if text not in _presets():
        raise UnknownNameError("batch time", text, [*preset_names(), AFFINE])
    found = preset(text)
    return found.batch_time, found.memory_limit


def batch_time_document(time: StorableTime) -> Stored:
    """Convert a batch time to its JSON form: a list of coefficients, or an object."""
    if isinstance(time, AffineTime):
        return list(dataclasses.astuple(time))
    fields = dataclasses.asdict(time)
    return {name: list(one) if isinstance(one, tuple) else one for name, one in fields.items()}


def batch_time_of(document: Any) -> StorableTime:
    """Convert the JSON form that `batch_time_document` returns back to a batch time.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        The document is not the JSON form of a batch time.
    """
    try:
        if isinstance(document, Sequence) and not isinstance(document, str):
            return AffineTime(*document)
        return TiledTime(**document)
    except TypeError as error:
        # The constructor raises TypeError if the number or the names of parameters are wrong.
        raise InvalidTypeError(None, "batch_time", document, "is not a batch time") from error
