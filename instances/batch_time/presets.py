"""Batch-time models of named hardware, with where their figures come from."""

from __future__ import annotations

from dataclasses import dataclass

from instances.errors import InvalidValueError
from instances.generators.registry import UnknownNameError

from .models import AffineTime


@dataclass(frozen=True, slots=True)
class Preset:
    """A model on given hardware.

    Attributes
    ----------
    name : str
        How it is asked for.
    batch_time : AffineTime
        Seconds of a round.
    memory_limit : int
        Capacity M of the KV cache, tokens.
    """

    name: str
    batch_time: AffineTime
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

_PRESETS = {preset.name: preset for preset in (LLAMA_2_70B_2XA100,)}


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


def parse_batch_time(text: str) -> tuple[AffineTime, int | None]:
    """A batch time as command lines take it: a preset's name, or ``affine:d0,d1,d2`` in seconds.

    Returns
    -------
    tuple[AffineTime, int | None]
        (batch_time, memory_limit) : the latter the preset's.

    Raises
    ------
    UnknownNameError
        Neither; the message lists what is known.
    InvalidValueError
        Coefficients that are no numbers, not one to three of them, or out of range.
    """
    kind, colon, coefficients = text.partition(":")
    if colon and kind == "affine":
        try:
            numbers = [float(one) for one in coefficients.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            raise InvalidValueError(None, "batch time", text, f"is not of the form {AFFINE}")
        return AffineTime(*numbers), None
    if text not in _PRESETS:
        raise UnknownNameError("batch time", text, [*preset_names(), AFFINE])
    found = preset(text)
    return found.batch_time, found.memory_limit
