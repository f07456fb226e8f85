"""Types of NumPy arrays, and read-only arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def read_only(values: Any, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """Copy a sequence of numbers into a read-only NumPy array."""
    column = np.array(values, dtype=dtype)
    column.setflags(write=False)
    return column


class RequestColumns(NamedTuple):
    """Requests as arrays with the memory limit M: the arguments of compiled (Numba) loops.

    Attributes
    ----------
    prompt_lengths, output_lengths : int64 array
        Prompt and output tokens of each request, shape (n,).
    arrival_times : int64 array
        Arrival of each request in rounds, shape (n,).
    memory_limit : int
        M, tokens.
    """

    prompt_lengths: IntArray
    output_lengths: IntArray
    arrival_times: IntArray
    memory_limit: int
