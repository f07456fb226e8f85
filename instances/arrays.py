"""Types of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
