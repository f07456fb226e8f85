"""An inference request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances.arrays import IntArray, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import LARGEST_INTEGER, LARGEST_TOKEN_COUNT, as_integer, as_name

RequestId = str | int

LARGEST_WEIGHT = 2**20
"""With larger weights, priced costs of many requests would not fit into 64 bits."""

LARGEST_ID = 2**128 - 1
"""Identifiers of that many bits are in use; more would only be shown."""


def as_request_id(value: Any) -> RequestId:
    """``value`` if it can label a request.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Neither a name (see `as_name`) nor an integer of at most 128 bits.
    """
    if isinstance(value, str):
        return as_name(value, "request", "id")
    try:
        return as_integer(value, "request", "id", minimum=-LARGEST_ID, maximum=LARGEST_ID)
    except InvalidTypeError:
        reason = "is neither a string nor an integer"
        raise InvalidTypeError("request", "id", value, reason) from None


def check_distinct(ids: Collection[RequestId]) -> None:
    """Refuse labels that are not all different in a file, where 0 and "0" look alike.

    Raises
    ------
    InvalidValueError
        The first that is not.
    """
    counts = Counter(map(str, ids))
    for one in ids if len(counts) < len(ids) else ():
        if counts[str(one)] > 1:
            raise InvalidValueError(f"request {one!r}", "id", one, "is used twice")


def check_count(owner: str, field: str, column: Any, count: int) -> None:
    """Refuse a column that has not one entry per request.

    Raises
    ------
    InvalidValueError
        Another number of entries.
    """
    if len(column) != count:
        reason = f"differs from the {count} requests"
        raise InvalidValueError(owner, f"len({field})", len(column), reason)


def as_column(
    given: Sequence[int] | IntArray,
    ids: Sequence[RequestId],
    field: str,
    *,
    minimum: int,
    maximum: int = LARGEST_INTEGER,
) -> IntArray:
    """Return a whole number for each request as a read-only column.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        An entry that is not a whole number, or out of range; the message names the request.
    """
    column = given if isinstance(given, np.ndarray) and given.dtype == np.int64 else None
    if column is None or (len(column) and not minimum <= column.min() <= column.max() <= maximum):
        checked = [
            as_integer(one, f"request {label!r}", field, minimum=minimum, maximum=maximum)
            for label, one in zip(ids, given, strict=True)
        ]
        column = np.array(checked, dtype=np.int64)
    return read_only(column)


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be answered ([J25] Section 2).

    A request that starts at ``start_time`` t runs without interruption in rounds t+1 .. t+o and
    holds ``prompt_length`` + j tokens of KV cache in its j-th round.

    Parameters
    ----------
    arrival_time : int
        Earliest start a_i, a round index >= 0.
    prompt_length : int
        Prefill tokens s_i >= 0. Zero is for theorems that need it: an `Instance` accepts it only
        when told to.
    output_length : int
        Decode tokens o_i >= 1.
    id : RequestId or None, default None
        A label, unique within an instance, a string without control characters or an integer; None
        takes the position in the instance.
    weight : int, default 1
        Importance w_i >= 1: total latency is the sum of each request's latency times its weight.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A field is not a whole number in its range, or no label.
    """

    arrival_time: int
    prompt_length: int
    output_length: int
    id: RequestId | None = None
    weight: int = 1

    def __post_init__(self) -> None:
        if self.id is not None:
            object.__setattr__(self, "id", as_request_id(self.id))
        owner = "request" if self.id is None else f"request {self.id!r}"
        for field, minimum, maximum in (
            ("arrival_time", 0, LARGEST_INTEGER),
            ("prompt_length", 0, LARGEST_TOKEN_COUNT),
            ("output_length", 1, LARGEST_TOKEN_COUNT),
            ("weight", 1, LARGEST_WEIGHT),
        ):
            value = getattr(self, field)
            number = as_integer(value, owner, field, minimum=minimum, maximum=maximum)
            object.__setattr__(self, field, number)

    @property
    def peak_memory(self) -> int:
        """KV tokens held in the last round, s + o."""
        return self.prompt_length + self.output_length

    @property
    def volume(self) -> int:
        """Token-rounds of KV cache over the whole run, s o + o (o + 1) / 2 ([J25] vol_o)."""
        return (
            self.prompt_length * self.output_length
            + self.output_length * (self.output_length + 1) // 2
        )
