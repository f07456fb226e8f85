"""Types of arrays, and arrays that cannot be written to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def read_only(values: Any, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """Copy numbers into an array that cannot be written to."""
    column = np.array(values, dtype=dtype)
    column.setflags(write=False)
    return column


class RequestColumns(NamedTuple):
    """Requests column by column, and the memory they share, as compiled loops take them.

    Attributes
    ----------
    prompt_lengths, output_lengths : int64 array
        Tokens, shape (n,).
    arrival_times : int64 array
        Rounds, shape (n,).
    memory_limit : int
        M, tokens.
    """

    prompt_lengths: IntArray
    output_lengths: IntArray
    arrival_times: IntArray
    memory_limit: int
