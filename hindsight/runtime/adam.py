"""Adam (Kingma and Ba, 2015), as an ascent within a box."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from instances.arrays import FloatArray

from .compilation import njit


class _Settings(NamedTuple):
    """Parameters of `Adam`: weights of the latest gradient, damping and the box."""

    gains: tuple[float, float]
    damping: float
    lowest: float
    highest: float


@njit
def _step(
    x: FloatArray,
    gradient: FloatArray,
    mean: FloatArray,
    square: FloatArray,
    settings: _Settings,
    corrections: tuple[float, float],
    rate: float,
) -> None:
    gains, damping, lowest, highest = settings
    for k in range(x.size):
        g = gradient[k]
        mean[k] = (1.0 - gains[0]) * mean[k] + gains[0] * g
        square[k] = (1.0 - gains[1]) * square[k] + gains[1] * g * g
        scale = np.sqrt(square[k] / corrections[1]) + damping
        x[k] = min(max(x[k] + rate * (mean[k] / corrections[0]) / scale, lowest), highest)


class Adam:
    """Adam: steps along the running mean of the gradient over the root of its mean square.

    Parameters
    ----------
    x : float64 array
        Initial point, a contiguous array of any shape; steps change it in place.
    gains : tuple[float, float], default (0.1, 0.01)
        Weights of the latest gradient in the mean, and of its square in the mean square.
    damping : float, default 1e-3
        Added to the root of the mean square: gradients far below it make small steps.
    lowest, highest : float, optional
        Bounds of x; the default is x >= 0.
    """

    def __init__(
        self,
        x: FloatArray,
        gains: tuple[float, float] = (0.1, 0.01),
        damping: float = 1e-3,
        lowest: float = 0.0,
        highest: float = math.inf,
    ) -> None:
        self._x = x.reshape(-1)
        self._mean, self._square = np.zeros_like(self._x), np.zeros_like(self._x)
        self._settings = _Settings(gains, damping, lowest, highest)
        self._steps = 0

    def step(self, gradient: FloatArray, rate: float) -> None:
        """Take one step of about ``rate`` in every entry, upwards along ``gradient``."""
        self._steps += 1
        # The means begin at 0; divide out that bias.
        gain, square_gain = self._settings.gains
        corrections = (1.0 - (1.0 - gain) ** self._steps, 1.0 - (1.0 - square_gain) ** self._steps)
        flat = gradient.reshape(-1)
        _step(self._x, flat, self._mean, self._square, self._settings, corrections, rate)
