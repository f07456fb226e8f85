"""Rows of the user's added to a compiled program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from hindsight.extensions.cuts import OwnCut, Row
from instances import Instance

from .highs import CompiledModel


def rows_of(cuts: Iterable[OwnCut], instance: Instance, horizon: int) -> list[Row]:
    """The rows of all of them."""
    return [row for cut in cuts for row in cut.rows(instance, horizon)]


def with_rows(compiled: CompiledModel, rows: list[Row]) -> CompiledModel:
    """The dense program with further rows, named ``("cut", k)``, after its own.

    Starts that the program does not have are 0 in it, and left out.
    """
    if not rows:
        return compiled
    place = {key: column for column, (name, key) in enumerate(compiled.columns) if name == "x"}
    entries = [
        (number, place[start], float(coefficient))
        for number, (coefficients, _) in enumerate(rows)
        for start, coefficient in coefficients.items()
        if start in place
    ]
    numbers, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    linear = compiled.linear
    added = sp.csc_array(
        (values, (numbers, columns)), shape=(len(rows), len(linear.costs)), dtype=np.float64
    )
    limits = np.array([float(limit) for _, limit in rows])
    return CompiledModel(
        replace(
            linear,
            matrix=sp.csc_array(sp.vstack([linear.matrix, added])),
            row_lower=np.concatenate([linear.row_lower, np.full(len(rows), -np.inf)]),
            row_upper=np.concatenate([linear.row_upper, limits]),
        ),
        compiled.columns,
        [*compiled.rows, *(("cut", number) for number in range(len(rows)))],
    )
