"""Batch-time models fitted to measured rounds by least squares."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray
from instances.batch_time import AffineTime, BatchTime, TiledTime

from .measurements import Measurements

Model = TypeVar("Model", bound=BatchTime)


@dataclass(frozen=True, slots=True)
class Fit(Generic[Model]):
    """A fitted batch-time model with its errors on the measured rounds.

    Attributes
    ----------
    model : Model
        The batch-time model.
    measurements : int
        Number of measured rounds that the model was fitted to.
    mean_absolute_percentage_error : float
        Mean of |fitted - measured| / measured seconds, as a share (0.05 for 5 %).
    largest_percentage_error : float
        Largest |fitted - measured| / measured seconds, as a share.
    r_squared : float
        Share of the variance of the measured seconds that the model explains; NaN if all measured
        seconds are equal.
    """

    model: Model
    measurements: int
    mean_absolute_percentage_error: float
    largest_percentage_error: float
    r_squared: float


def fit_affine_time(
    measurements: Measurements | str | os.PathLike[str], *, relative: bool = False
) -> Fit[AffineTime]:
    """Fit d0 + d1 * tokens + d2 * KV tokens to measured seconds, with d0, d1, d2 >= 0.

    Parameters
    ----------
    measurements : Measurements or str or os.PathLike
        Measured rounds, or the path of a CSV file with one row for each.
    relative : bool, default False
        True minimises the sum of squared relative errors: each row has the weight 1 / seconds.
        False minimises the sum of squared errors in seconds, which long rounds dominate.

    Raises
    ------
    InvalidValueError
        The fit has d0 = 0, or there are fewer than three rows.
    OSError, FileFormatError
        See `Measurements.read`.
    """
    data = _measurements(measurements, needed=3)
    design = np.column_stack([np.ones_like(data.tokens), data.tokens, data.kv_tokens])
    d0, d1, d2 = _least_squares(design, data.seconds, relative=relative)
    return _report(AffineTime(_positive(d0), d1, d2), data)


def fit_tiled_time(
    measurements: Measurements | str | os.PathLike[str],
    tokens: Sequence[int],
    tile: int = 1,
    *,
    relative: bool = False,
) -> Fit[TiledTime]:
    """Fit a `TiledTime` by least squares: a table over tokens processed, and attention terms.

    The table has the seconds of a round at given numbers of tokens processed, and is linear in
    between. It may decrease, except between its last two entries. Entries without measured rounds
    near them are left out. Attention has a coefficient for each KV token. It has further ones, per
    kernel, per squared prompt token and per product of prompt tokens and tokens before, if the
    measurements have the optional columns for them.

    Parameters
    ----------
    measurements : Measurements or str or os.PathLike
        Measured rounds, or the path of a CSV file with one row for each.
    tokens : Sequence[int]
        Token counts at which the table has entries, increasing multiples of ``tile``, at least two.
    tile : int, default 1
        Tokens processed are rounded up to a multiple of ``tile``.
    relative : bool, default False
        See `fit_affine_time`.

    Raises
    ------
    InvalidValueError
        Entries are out of order, fewer than two have measured rounds near them, a fitted entry has
        0 seconds, or there are fewer rows than unknowns.
    OSError, FileFormatError
        See `Measurements.read`.
    """
    model = TiledTime(tuple(tokens), tuple(range(1, len(tokens) + 1)), tile)
    data = _measurements(measurements, needed=3)
    places = np.ceil(data.tokens / model.tile) * model.tile
    knots = np.array(model.tokens, dtype=np.float64)
    while True:
        if len(knots) < 2:
            reason = "has measured rounds near fewer than two of its entries"
            raise InvalidValueError("batch time", "tokens", tuple(tokens), reason)
        hats = _hats(places, knots)
        used = hats.any(axis=0)
        if used.all():
            break
        knots = knots[used]
    # Fit the increase of the last entry over the one before, >= 0, so the table ends rising.
    hats[:, -2] += hats[:, -1]
    terms: dict[str, FloatArray] = {"kv_token": data.kv_tokens}
    if data.decodes is not None:
        kernels = np.stack([data.decodes > 0, data.tokens > data.decodes])
        terms["kernel"] = kernels.sum(axis=0, dtype=np.float64)
    for name in ("prompt_squares", "prompt_past"):
        column = getattr(data, name)
        if column is not None:
            terms[name.removesuffix("s")] = column
    data = _measurements(data, needed=len(knots) + len(terms))
    design = np.column_stack([hats, *terms.values()])
    found = _least_squares(design, data.seconds, relative=relative)
    table = [_positive(one) for one in found[: len(knots) - 1]]
    table.append(table[-1] + found[len(knots) - 1])
    attention = dict(zip(terms, found[len(knots) :], strict=True))
    sizes = [int(one) for one in knots]
    return _report(TiledTime(tuple(sizes), tuple(table), model.tile, **attention), data)


def _hats(places: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the weights that interpolate linearly between table entries, shape (places, knots).

    ``places`` are numbers of tokens, ``knots`` those at which the table has entries. Below the
    first entry the table is constant, beyond the last one it is extrapolated.
    """
    right = np.searchsorted(knots, places).clip(1, len(knots) - 1)
    share = (places - knots[right - 1]) / (knots[right] - knots[right - 1])
    share = share.clip(min=0.0)
    hats = np.zeros((len(places), len(knots)))
    rows = np.arange(len(places))
    hats[rows, right] = share
    hats[rows, right - 1] = 1 - share
    return hats


def _least_squares(design: FloatArray, seconds: FloatArray, *, relative: bool) -> list[float]:
    # Imported here because only fits need scipy.
    from scipy.optimize import nnls

    weights = 1 / seconds if relative else np.ones_like(seconds)
    # Scale columns to unit size: token counts and seconds differ by orders of magnitude.
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
            "batch time", "d0", seconds, "is the result of the fit, but every round takes some time"
        )
    return seconds


def _report(model: Model, data: Measurements) -> Fit[Model]:
    fitted = data.predicted(model)
    errors = np.abs(fitted - data.seconds) / data.seconds
    variance = float(((data.seconds - data.seconds.mean()) ** 2).sum())
    explained = 1 - float(((fitted - data.seconds) ** 2).sum()) / variance if variance else math.nan
    whole = float(errors.mean()), float(errors.max()), explained
    return Fit(model, len(fitted), *whole)
