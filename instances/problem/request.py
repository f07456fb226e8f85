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
"""Largest weight of a request. With larger ones, sums of weighted costs could overflow 64 bits."""

LARGEST_ID = 2**128 - 1
"""Largest integer used as an id: ids of up to 128 bits, such as UUIDs, are common."""


def as_request_id(value: Any) -> RequestId:
    """Return ``value`` if it can be the id of a request; raise an error otherwise.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        The value is neither a name (see `as_name`) nor an integer of at most 128 bits.
    """
    if isinstance(value, str):
        return as_name(value, "request", "id")
    try:
        return as_integer(value, "request", "id", minimum=-LARGEST_ID, maximum=LARGEST_ID)
    except InvalidTypeError:
        reason = "is neither a string nor an integer"
        raise InvalidTypeError("request", "id", value, reason) from None


def check_distinct(ids: Collection[RequestId]) -> None:
    """Raise an error if two ids are equal as text, as in a file, where 0 and "0" are the same.

    Raises
    ------
    InvalidValueError
        Two ids are equal. The message has the first such id.
    """
    counts = Counter(map(str, ids))
    for one in ids if len(counts) < len(ids) else ():
        if counts[str(one)] > 1:
            raise InvalidValueError(f"request {one!r}", "id", one, "is used twice")


def check_count(owner: str, field: str, column: Any, count: int) -> None:
    """Raise an error unless an array has one entry for each of ``count`` requests.

    ``owner`` and ``field`` are the names of the object and of the array in the error message.

    Raises
    ------
    InvalidValueError
        The number of entries is not ``count``.
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
    """Convert whole numbers, one for each request, to a read-only int64 array, shape (n,).

    ``ids`` are the ids of the requests, and ``field`` is the name of the numbers in errors.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        An entry is not a whole number in ``minimum`` .. ``maximum``; the message has the request.
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
    """Inference request: a prompt of s tokens, for which o tokens are generated ([J25] Section 2).

    A request that starts at t and is not preempted runs in rounds t+1 .. t+o. In the j-th of these
    it holds s + j tokens of KV cache.

    Parameters
    ----------
    arrival_time : int
        Arrival a_i, in rounds >= 0: the earliest possible start.
    prompt_length : int
        Prompt tokens s_i >= 0. Zero is for theorems that need it: an `Instance` allows it only with
        the metadata ``allow_zero_prompt_length``.
    output_length : int
        Output tokens o_i >= 1.
    id : RequestId or None, default None
        Label, unique within an instance: a string without control characters, or an integer. None
        takes the position in the instance.
    weight : int, default 1
        Weight w_i >= 1 of the request's latency in the total latency.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A field is not a whole number in its range, or the id is not a valid label.
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
        """Peak memory: the KV tokens s + o that the request holds in its last round."""
        return self.prompt_length + self.output_length

    @property
    def volume(self) -> int:
        """KV tokens held, summed over the request's rounds: s o + o (o + 1) / 2 ([J25] vol_o)."""
        output = self.output_length
        return self.prompt_length * output + output * (output + 1) // 2
