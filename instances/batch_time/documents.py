"""Batch times in stored documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from instances.errors import InvalidTypeError

from .models import AffineTime
from .tiled_time import TiledTime

StorableTime: TypeAlias = AffineTime | TiledTime
Stored: TypeAlias = Sequence[float] | Mapping[str, Any]
"""Coefficients of an affine batch time, or the parameters of one in tiles by name."""


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
