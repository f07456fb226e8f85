"""Batch times of named hardware with their sources, as text of a command, and in documents."""

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
    what : str
        The model, the GPUs of a machine and, in brackets, the engine or the kind of fit.
    """

    name: str
    batch_time: StorableTime
    memory_limit: int
    what: str


FILES = ("papers.json", "measured.json")
"""Tables with their sources. Each preset of the second is `online.batch_time.read_batch_time` of
its key ``of``, to five significant digits."""


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
    """The presets' names, sorted."""
    return _presets().names()


def preset(name: str) -> Preset:
    """A preset by name.

    Raises
    ------
    UnknownNameError
        No such preset; the message lists those that are.
    """
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
