"""Requests column by column, as compiled loops take them."""

from __future__ import annotations

from typing import NamedTuple

from instances.arrays import FloatArray, IntArray


class Requests(NamedTuple):
    """Requests by position.

    Attributes
    ----------
    arrival : int64 or float64 array, shape (n,)
        Rounds or seconds.
    prompt, output : int64 array, shape (n,)
        Tokens.
    """

    arrival: IntArray | FloatArray
    prompt: IntArray
    output: IntArray
