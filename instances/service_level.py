"""Service levels: limits on the latency of a request, within which it counts as on time."""

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
    """Limits on the time of a request, in seconds, or in rounds for instances in rounds.

    A request is on time if it keeps every limit that is not None.

    Parameters
    ----------
    latency : float or None, default None
        Limit on the time from arrival to the last token.
    first_token : float or None, default None
        Limit on the time from arrival to the first token (TTFT).
    time_per_token : float or None, default None
        Limit on the mean time between tokens (TPOT): from the first token to the last, divided by
        the output length - 1. A request with one output token always keeps it.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A limit is not a number above 0, or all are None.
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
"""One service level for all requests, or a sequence with one for each request, in order."""


class Limits(NamedTuple):
    """Limits of each request by its service level, as arrays of shape (n,). Infinite if not set.

    Attributes
    ----------
    latency, first_token, time_per_token : float64 array
        Limits of the requests, with the meaning of the fields of `ServiceLevel`.
    """

    latency: FloatArray
    first_token: FloatArray
    time_per_token: FloatArray

    def on_time(
        self, latency: npt.NDArray[Any], first_token: npt.NDArray[Any], output_lengths: IntArray
    ) -> BoolArray:
        """Return for each request whether it keeps all its limits, shape (n,).

        A request with a time of NaN, which never got the token, is late.

        Parameters
        ----------
        latency, first_token : array, shape (n,)
            Time from arrival to the last and to the first token, in the unit of the limits. If the
            times are `Fraction`, the limits must be those of `exactly`.
        output_lengths : int64 array, shape (n,)
            Output tokens of each request.
        """
        per_token = (latency - first_token) / np.maximum(output_lengths - 1, 1)
        return np.asarray(
            (latency <= self.latency)
            & (first_token <= self.first_token)
            & (per_token <= self.time_per_token)
        )

    def of(self, chosen: IntArray | BoolArray) -> Limits:
        """Return the limits of some requests, given as positions or as a mask."""
        return Limits(*(one[chosen] for one in self))

    def exactly(self) -> Limits:
        """Return the limits as exact `Fraction` of their decimals (0.1 is 1/10), or infinity."""
        exact = np.frompyfunc(lambda one: one if np.isinf(one) else decimal(one), 1, 1)
        return Limits(*map(exact, self))

    def decode(self, output_lengths: IntArray) -> FloatArray:
        """Return the limit on the time from the first token to the last, shape (n,).

        It is time_per_token * (output length - 1), and infinite for a single output token.
        """
        # For one output token and no limit, infinity * 0 is NaN. Suppress the warning, since the
        # last line replaces NaN by infinity.
        with np.errstate(invalid="ignore"):
            most = self.time_per_token * (output_lengths - 1)
        return np.where(output_lengths > 1, most, np.inf)

    def latest(self, output_lengths: IntArray) -> FloatArray:
        """Return the largest latency that all limits of a request together allow, shape (n,)."""
        decode = np.where(output_lengths > 1, self.decode(output_lengths), 0.0)
        latest: FloatArray = np.minimum(self.latency, self.first_token + decode)
        return latest


def limits_of(level: AnyLevel, requests: int) -> Limits:
    """Convert service levels to arrays of limits for a number of requests.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        ``level`` is neither a `ServiceLevel` nor a sequence with one for each request.
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
