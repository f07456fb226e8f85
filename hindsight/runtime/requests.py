"""Requests as arrays, for compiled loops."""

from __future__ import annotations

from typing import NamedTuple

from instances.arrays import FloatArray, IntArray


class Requests(NamedTuple):
    """Arrays of the attributes of requests, by position.

    Attributes
    ----------
    arrival : int64 or float64 array, shape (n,)
        Arrival times, in rounds or seconds.
    prompt, output : int64 array, shape (n,)
        Prompt and output lengths, in tokens.
    """

    arrival: IntArray | FloatArray
    prompt: IntArray
    output: IntArray
