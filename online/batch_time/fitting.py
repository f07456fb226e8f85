"""Batch-time models fitted to measured rounds by least squares."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from instances import FileFormatError, InvalidValueError
from instances.arrays import FloatArray
from instances.batch_time import AffineTime, BatchStretch, BatchTime, PiecewiseLinearTime
from instances.files import bounded_lines
from instances.validation import as_number

COLUMNS = ("tokens", "kv_tokens", "seconds")

Model = TypeVar("Model", bound=BatchTime)


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measured rounds, as columns of shape (k,).

    Attributes
    ----------
    tokens : float64 array
        Tokens processed (prompt tokens, and one for each decoding request), >= 0.
    kv_tokens : float64 array
        KV tokens resident, >= 0.
    seconds : float64 array
        Duration, > 0.
    """

    tokens: FloatArray
    kv_tokens: FloatArray
    seconds: FloatArray

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Measurements:
        """Read a CSV file with the columns ``tokens,kv_tokens,seconds``; others are ignored.

        Raises
        ------
        OSError
            The file cannot be read.
        FileFormatError
            A missing column, a cell that is no number in range (with its row), or no rows.
        """
        rows: list[tuple[float, ...]] = []
        with open(path, newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(bounded_lines(stream, path))
            try:
                header = reader.fieldnames or []
                for column in COLUMNS:
                    if column not in header:
                        found = ", ".join(header) or "none"
                        raise FileFormatError(
                            path, f"column {column!r} is missing (found: {found})"
                        )
                for row in reader:
                    number = reader.line_num
                    rows.append(tuple(_cell(row[name], name, path, number) for name in COLUMNS))
            except (csv.Error, UnicodeDecodeError) as error:
                raise FileFormatError(path, f"not a CSV file: {error}") from error
        if not rows:
            raise FileFormatError(path, "holds no measurements")
        table = np.array(rows, dtype=np.float64)
        return cls(table[:, 0], table[:, 1], table[:, 2])


@dataclass(frozen=True, slots=True)
class Fit(Generic[Model]):
    """A fitted model and how far it is from the measurements.

    Attributes
    ----------
    model : Model
        The batch-time model.
    measurements : int
        How many rows it was fitted to.
    mean_absolute_percentage_error : float
        Mean of |fitted - measured| / measured, as a share.
    largest_percentage_error : float
        The largest of these shares.
    r_squared : float
        Share of the variance of the measured seconds that is explained; NaN where they are all
        equal.
    """

    model: Model
    measurements: int
    mean_absolute_percentage_error: float
    largest_percentage_error: float
    r_squared: float


def fit_affine_time(
    measurements: Measurements | str | os.PathLike[str], *, relative: bool = False
) -> Fit[AffineTime]:
    """Fit d0 + d1 * tokens + d2 * KV tokens by least squares, no coefficient below 0.

    Parameters
    ----------
    measurements : Measurements or str or os.PathLike
        Rows, or the path of a CSV file with them.
    relative : bool, default False
        Weigh each row by 1 / seconds, which minimises squared errors in per cent; a plain fit lets
        the longest rounds decide.

    Raises
    ------
    InvalidValueError
        The fit has d0 = 0, or fewer than three rows.
    OSError, FileFormatError
        See `Measurements.read`.
    """
    data = _measurements(measurements, needed=3)
    design = np.column_stack([np.ones_like(data.tokens), data.tokens, data.kv_tokens])
    d0, d1, d2 = _least_squares(design, data.seconds, relative=relative)
    return _report(AffineTime(_positive(d0), d1, d2), data)


def fit_piecewise_linear_time(
    measurements: Measurements | str | os.PathLike[str],
    tokens: Sequence[float],
    *,
    relative: bool = False,
) -> Fit[PiecewiseLinearTime]:
    """Fit a table over tokens processed, and d2, by least squares.

    The table's seconds do not decrease, its first entry is positive and d2 is at least 0. Rows
    between entries count for both neighbours, as they are interpolated; those outside the range
    as the model extends there.

    Parameters
    ----------
    measurements : Measurements or str or os.PathLike
        Rows, or the path of a CSV file with them.
    tokens : Sequence[float]
        Where the table has entries, increasing, at least two.
    relative : bool, default False
        As in `fit_affine_time`.

    Raises
    ------
    InvalidValueError
        Entries out of order, a first entry of 0 seconds, or fewer rows than there are unknowns (the
        entries and d2).
    OSError, FileFormatError
        See `Measurements.read`.
    """
    knots = np.asarray(
        PiecewiseLinearTime(tokens, list(range(1, len(tokens) + 1))).tokens, dtype=np.float64
    )
    data = _measurements(measurements, needed=len(knots) + 1)
    # In increments from entry to entry the table cannot decrease: all unknowns are >= 0.
    pieces = np.diff(knots)
    filled = (data.tokens[:, None] - knots[:-1]) / pieces
    upper = np.ones(len(pieces))
    upper[-1] = np.inf
    ramps = np.clip(filled, 0.0, upper)
    design = np.column_stack([np.ones_like(data.tokens), ramps, data.kv_tokens])
    first, *increments, d2 = _least_squares(design, data.seconds, relative=relative)
    seconds = np.cumsum([_positive(first), *increments])
    return _report(PiecewiseLinearTime(knots.tolist(), seconds.tolist(), d2), data)


def _least_squares(design: FloatArray, seconds: FloatArray, *, relative: bool) -> list[float]:
    # Imported here: only fits need it.
    from scipy.optimize import nnls

    weights = 1 / seconds if relative else np.ones_like(seconds)
    # Columns of unit size: token counts and seconds differ by orders of magnitude.
    weighted = design * weights[:, None]
    sizes = np.linalg.norm(weighted, axis=0)
    sizes[sizes == 0] = 1.0
    solution, _ = nnls(weighted / sizes, seconds * weights)
    return [float(value) for value in solution / sizes]


def _measurements(given: Measurements | str | os.PathLike[str], *, needed: int) -> Measurements:
    data = given if isinstance(given, Measurements) else Measurements.read(given)
    if len(data.seconds) < needed:
        raise InvalidValueError(
            "batch time", "measurements", len(data.seconds), f"is fewer than {needed} rows"
        )
    return data


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise InvalidValueError(
            "batch time", "d0", seconds, "came out of the fit: a round without tokens takes no time"
        )
    return seconds


def _report(model: Model, data: Measurements) -> Fit[Model]:
    fitted = np.array(
        [_seconds(model, row) for row in zip(data.tokens, data.kv_tokens, strict=True)]
    )
    errors = np.abs(fitted - data.seconds) / data.seconds
    variance = float(((data.seconds - data.seconds.mean()) ** 2).sum())
    explained = 1 - float(((fitted - data.seconds) ** 2).sum()) / variance if variance else math.nan
    return Fit(model, len(fitted), float(errors.mean()), float(errors.max()), explained)


def _seconds(model: BatchTime, row: Iterable[float]) -> float:
    tokens, kv_tokens = row
    # Means over several rounds need not be whole; the models take them as they are.
    stretch = BatchStretch(1, tokens, 0, 0, kv_tokens, 0)  # type: ignore[arg-type]
    return float(model.durations(stretch)[0])


def _cell(text: str | None, column: str, path: str | os.PathLike[str], row: int) -> float:
    try:
        value = as_number(float(text or ""), None, column, minimum=0)
    except ValueError:
        value = -1.0
    if value < 0 or (value == 0 if column == "seconds" else not value.is_integer()):
        raise FileFormatError(path, f"{column} {text!r} is not a number in its range", row=row)
    return value
