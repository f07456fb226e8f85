"""Fit a batch time that is a table over numbers of tokens to measured rounds, by least squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray
from instances.batch_time import TiledTime

from .measurements import Measurements


def fit_tiled_time(data: Measurements, tokens: Sequence[int], tile: int = 1) -> TiledTime:
    """Fit a `TiledTime` by least squares: a table over tokens processed, and attention terms.

    The table has the seconds of a round at given numbers of tokens processed, and is linear in
    between. It may decrease, except between its last two entries. Entries without measured rounds
    near them are left out. The time of attention has a coefficient for KV tokens. If the
    measurements have the optional columns, it also has coefficients for the number of kernels, for
    squared prompt tokens, and for products of prompt tokens and earlier tokens. The fit minimises
    the sum of squared relative errors.

    Parameters
    ----------
    data : Measurements
        Measured rounds, as `Measurements.read` reads them.
    tokens : Sequence[int]
        Token counts at which the table has entries, increasing multiples of ``tile``, at least two.
    tile : int, default 1
        Tokens processed are rounded up to a multiple of ``tile``.

    Raises
    ------
    InvalidValueError
        Entries are out of order, fewer than two have measured rounds near them, a fitted entry has
        0 seconds, or there are fewer rows than unknowns.
    """
    model = TiledTime(tuple(tokens), tuple(range(1, len(tokens) + 1)), tile)
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
    # The last unknown is the increase of the last entry over the one before. It is >= 0, so the
    # table does not decrease at its end.
    hats[:, -2] += hats[:, -1]
    terms: dict[str, FloatArray] = {"kv_token": data.kv_tokens}
    if data.decodes is not None:
        kernels = np.stack([data.decodes > 0, data.tokens > data.decodes])
        terms["kernel"] = kernels.sum(axis=0, dtype=np.float64)
    for name in ("prompt_squares", "prompt_past"):
        column = getattr(data, name)
        if column is not None:
            terms[name.removesuffix("s")] = column
    needed = len(knots) + len(terms)
    if len(data.seconds) < needed:
        reason = f"is fewer than {needed} rows"
        raise InvalidValueError("batch time", "measurements", len(data.seconds), reason)
    design = np.column_stack([hats, *terms.values()])
    found = _least_squares(design, data.seconds)
    table = [_positive(one) for one in found[: len(knots) - 1]]
    table.append(table[-1] + found[len(knots) - 1])
    attention = dict(zip(terms, found[len(knots) :], strict=True))
    sizes = [int(one) for one in knots]
    return TiledTime(tuple(sizes), tuple(table), model.tile, **attention)


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


def _least_squares(design: FloatArray, seconds: FloatArray) -> list[float]:
    # scipy is imported here, because only fits need it.
    from scipy.optimize import nnls

    # Scale columns to unit size: token counts and seconds differ by orders of magnitude.
    weighted = design / seconds[:, None]
    sizes = np.linalg.norm(weighted, axis=0)
    sizes[sizes == 0] = 1.0
    solution, _ = nnls(weighted / sizes, np.ones_like(seconds))
    return [float(value) for value in solution / sizes]


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise InvalidValueError(
            "batch time", "d0", seconds, "is the result of the fit, but every round takes some time"
        )
    return seconds
