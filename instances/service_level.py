"""Service levels: how long a request may take and still count as on time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import check_ranges, decimal, ranged

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """Most time that a request may take, in seconds, or in rounds where those are counted.

    A request is on time if it keeps every limit that is set.

    Parameters
    ----------
    latency : float or None, default None
        Most time from arrival to the last token.
    first_token : float or None, default None
        Most time from arrival to the first token (TTFT).
    time_per_token : float or None, default None
        Most time between two tokens on average (TPOT): from the first token to the last, divided
        by the output length less one. A request of one token always keeps it.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A limit is not a number above 0, or none is set.
    """

    latency: float | None = ranged(None, above=0)
    first_token: float | None = ranged(None, above=0)
    time_per_token: float | None = ranged(None, above=0)

    def __post_init__(self) -> None:
        check_ranges(self, "service level")
        if not any((self.latency, self.first_token, self.time_per_token)):
            reason = "sets no limit: give latency, first_token or time_per_token"
            raise InvalidValueError("service level", "latency", None, reason)

    def __str__(self) -> str:
        limits = ((field.name, getattr(self, field.name)) for field in fields(self))
        return ", ".join(f"{name} <= {limit:g}" for name, limit in limits if limit is not None)


AnyLevel = ServiceLevel | Sequence[ServiceLevel]
"""One level for all requests, or one for each, in their order."""


class Limits(NamedTuple):
    """Limits of each request, infinite where none is set, shape (n,).

    Attributes
    ----------
    latency, first_token, time_per_token : float64 array
        See `ServiceLevel`.
    """

    latency: FloatArray
    first_token: FloatArray
    time_per_token: FloatArray

    def on_time(
        self, latency: npt.NDArray[Any], first_token: npt.NDArray[Any], output_lengths: IntArray
    ) -> BoolArray:
        """Return which requests are on time, shape (n,); NaN is late.

        Parameters
        ----------
        latency, first_token : array, shape (n,)
            Time from arrival to the last and to the first token; fractions need limits `exactly`.
        output_lengths : int64 array, shape (n,)
            Tokens.
        """
        per_token = (latency - first_token) / np.maximum(output_lengths - 1, 1)
        return np.asarray(
            (latency <= self.latency)
            & (first_token <= self.first_token)
            & (per_token <= self.time_per_token)
        )

    def of(self, chosen: IntArray | BoolArray) -> Limits:
        """Return the limits of some requests."""
        return Limits(*(one[chosen] for one in self))

    def exactly(self) -> Limits:
        """Return the decimals that the limits are written as, infinite where none is set."""
        exact = np.frompyfunc(lambda one: one if np.isinf(one) else decimal(one), 1, 1)
        return Limits(*map(exact, self))

    def decode(self, output_lengths: IntArray) -> FloatArray:
        """Return the most time from the first token to the last, infinite for a single token."""
        # No limit on the time of no further token is no number, and is not taken.
        with np.errstate(invalid="ignore"):
            most = self.time_per_token * (output_lengths - 1)
        return np.where(output_lengths > 1, most, np.inf)

    def latest(self, output_lengths: IntArray) -> FloatArray:
        """Return the most latency that all limits of a request allow together, shape (n,)."""
        decode = np.where(output_lengths > 1, self.decode(output_lengths), 0.0)
        latest: FloatArray = np.minimum(self.latency, self.first_token + decode)
        return latest


def limits_of(level: AnyLevel, requests: int) -> Limits:
    """Return the limits of each of so many requests.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Neither a level nor one for each request.
    """
    levels = [level] if isinstance(level, ServiceLevel) else level
    if not isinstance(levels, Sequence) or not all(isinstance(one, ServiceLevel) for one in levels):
        reason = "is neither a ServiceLevel nor a list of them"
        raise InvalidTypeError(None, "level", level, reason)
    if levels is level and len(levels) != requests:
        reason = f"differs from the number of requests, {requests}"
        raise InvalidValueError(None, "len(level)", len(levels), reason)
    rows = [(one.latency, one.first_token, one.time_per_token) for one in levels]
    table = np.array([[np.inf if one is None else one for one in row] for row in rows])
    return Limits(*np.ascontiguousarray(np.broadcast_to(table.reshape(-1, 3), (requests, 3)).T))
