"""Maximise concave dual functions of prices, by Adam or by L-BFGS-B.

A dual function of prices is concave and bounds an optimum from below. It contains minima (over the
choices of a request) and maxima (over sets of requests that run together). Both are smoothed at a
temperature, the *heat*: an entropic smoothing after Nesterov (2005), whose gradient is exact. An
ascent runs in stages in which the heat falls. The ascent proves nothing: the bound of the final
prices is computed separately, in integers or with outward rounding.

- *Adam* (Kingma and Ba, 2015) steps along the running mean of the gradient, divided by the root of
  its mean square. It needs no function values, so a dual may be evaluated for some requests only.
- *L-BFGS-B* (Byrd, Lu, Nocedal, Zhu 1995) needs smooth values and estimates curvature from previous
  steps. This pays off where one request couples the prices of many rounds.

References
----------
.. [1] R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, "A limited memory algorithm for bound constrained
       optimization", SIAM Journal on Scientific Computing 16 (1995), 1190-1208.
.. [2] D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
.. [3] Y. Nesterov, "Smooth minimization of non-smooth functions", Mathematical Programming 103
       (2005), 127-152.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.runtime.clock import StoppedEarlyError, never
from instances.arrays import FloatArray


class Evaluation(NamedTuple):
    """Value and gradient of a dual function (a lower bound on an optimum) at given variables.

    A dual function is the sum over the requests of the least cost of a choice (such as a start),
    minus the sum over the rounds of the largest total price of requests that may run together. The
    *smooth minorant* has soft minima and soft maxima at a temperature instead. It is
    differentiable, and it never exceeds the dual function.

    Attributes
    ----------
    value : float
        Value of the dual function; -inf if it was not computed.
    smooth : float
        Value of the smooth minorant; NaN if it was not computed. L-BFGS-B uses it, Adam does not.
    gradient : float64 array
        Gradient of the smooth minorant, in the shape of the variables.
    solution : Any, default None
        Fractional solution of the scheduling problem that was computed at these variables, such as
        `hindsight.prices.tokens.FractionalStarts`. None if the dual function computes none.
    """

    value: float
    smooth: float
    gradient: FloatArray
    solution: Any = None


Dual = Callable[[FloatArray, float], Evaluation]
"""Type of a dual function (lower bound): maps variables and a temperature to an `Evaluation`."""


class Settings(NamedTuple):
    """Parameters of `Adam`, which steps along a running mean of the gradients.

    For each variable, the step is divided by the square root of the running mean of its squared
    gradients.

    Attributes
    ----------
    gains : tuple[float, float], default (0.1, 0.01)
        Weight of the latest gradient in the running mean, and weight of its square in the running
        mean of squares.
    damping : float, default 1e-3
        Number added to the square root of the running mean of squares before the division, so that
        gradients far below ``damping`` make small steps.
    lowest, highest : float, optional
        Smallest and largest value of every variable; by default 0 and infinity.
    """

    gains: tuple[float, float] = (0.1, 0.01)
    damping: float = 1e-3
    lowest: float = 0.0
    highest: float = math.inf


class Stage(NamedTuple):
    """Stage of an ascent by Adam or L-BFGS-B: its length, temperatures and step sizes.

    Attributes
    ----------
    steps : int
        Largest number of evaluations of the dual function by Adam, or of steps of L-BFGS-B.
    heats : tuple[float, float]
        Temperature of the smooth minorant, a smooth lower bound on the dual function
        (`Evaluation`), in the first and in the last step of Adam. In between it changes
        geometrically. L-BFGS-B uses only the first.
    rates : tuple[float, float] or None, default None
        Step size of Adam in the first and in the last step: about how much it changes each
        variable. In between it changes geometrically. None selects L-BFGS-B.
    tolerance : float, default 0.0
        L-BFGS-B ends the stage after a step that raises the smooth minorant by less than this share
        of its value. Adam ignores it.
    """

    steps: int
    heats: tuple[float, float]
    rates: tuple[float, float] | None = None
    tolerance: float = 0.0


ADAM = Settings()
"""Default parameters of `Adam`: gains and damping as in `Settings`, variables >= 0."""


class Adam:
    """Gradient ascent by Adam, with a lower and an upper bound on every variable.

    Parameters
    ----------
    x : float64 array
        Initial variables, of any shape; `step` changes them in place.
    settings : Settings, optional
        Weights of the latest gradient and of its square in the running means, damping, and bounds
        of the variables.
    """

    def __init__(self, x: FloatArray, settings: Settings = ADAM) -> None:
        self.x, self._settings, self._steps = x, settings, 0
        self._mean, self._square = np.zeros_like(x), np.zeros_like(x)

    def step(self, gradient: FloatArray, rate: float) -> None:
        """Add the present ``gradient`` to the running means, and change the variables by one step.

        Each variable changes by about ``rate``, in the direction in which the function grows.
        """
        (gain, square_gain), damping, lowest, highest = self._settings
        self._steps += 1
        self._mean *= 1.0 - gain
        self._mean += gain * gradient
        self._square *= 1.0 - square_gain
        self._square += square_gain * gradient * gradient
        # Both running means begin at 0, so they are too small at first: after k steps with weight g
        # of the latest gradient, all gradients together have the weight 1 - (1 - g)^k. Divide each
        # mean by this number.
        mean = self._mean / (1.0 - (1.0 - gain) ** self._steps)
        square = self._square / (1.0 - (1.0 - square_gain) ** self._steps)
        self.x += rate * mean / (np.sqrt(square) + damping)
        np.clip(self.x, lowest, highest, out=self.x)


class Best:
    """Callback of `ascend` that keeps the variables at which the dual function was largest so far.

    Attribute ``x`` is a copy of these variables, and ``value`` is the dual function at ``x``.
    Before the first call, ``x`` has the initial variables, and ``value`` is -inf.
    """

    def __init__(self, x: FloatArray) -> None:
        self.x, self.value = x, -math.inf

    def __call__(self, x: FloatArray, found: Evaluation) -> None:
        """Keep a copy of ``x`` if ``found.value`` is larger than in all earlier calls."""
        if found.value > self.value:
            self.x, self.value = x.copy(), found.value


def ascend(
    dual: Dual,
    x: FloatArray,
    stages: tuple[Stage, ...],
    *,
    stepped: Callable[[FloatArray, Evaluation], object] = lambda x, found: None,
    must_stop: Callable[[], bool] = never,
    settings: Settings = ADAM,
) -> FloatArray:
    """Maximise a dual function in stages and return the final variables.

    Parameters
    ----------
    dual : Dual
        The dual function. Its arguments are the variables (usually prices) and the temperature of
        its smooth minorant, a smooth lower bound on the dual function. It may raise
        StoppedEarlyError, which ends the ascent.
    x : float64 array
        Initial variables, of any shape; not changed.
    stages : tuple[Stage, ...]
        Stages, in the order in which they run. In each, Adam begins with running means of 0.
    stepped : Callable, optional
        Called with the variables and their `Evaluation`, at the start of a stage and after each
        step. Returning True ends the ascent. The callback must copy variables to keep them, because
        Adam changes them in place afterwards.
    must_stop : Callable[[], bool], default never
        Called after ``stepped``; returning True ends the ascent.
    settings : Settings, optional
        Parameters of `Adam`, including the bounds of its variables.

    Returns
    -------
    float64 array
        Variables after the last completed step.
    """
    last = [x.copy()]

    def report(x: FloatArray, found: Evaluation) -> None:
        if stepped(x, found) is True or must_stop():
            raise StoppedEarlyError

    try:
        # Let BLAS (linear algebra of NumPy and SciPy) use a single thread. Further threads would
        # wait in busy loops, and on a machine with other work these loops take most of the time.
        with threadpool_limits(1, "blas"):
            for stage in stages:
                if stage.rates is None:
                    _climb_by_curvature(dual, last, stage, report)
                    continue
                adam = Adam(last[0], settings)
                for k in range(stage.steps):
                    share = k / max(1, stage.steps - 1)
                    falling = stage.heats, stage.rates
                    heat, rate = (one[0] * (one[1] / one[0]) ** share for one in falling)
                    found = dual(adam.x, heat)
                    report(adam.x, found)
                    if k < stage.steps - 1:
                        adam.step(found.gradient, rate)
    except StoppedEarlyError:
        pass
    return last[0]


Report = Callable[[FloatArray, Evaluation], None]
"""Called with variables and `Evaluation` after each step; may raise StoppedEarlyError to stop."""


def _climb_by_curvature(dual: Dual, last: list[FloatArray], stage: Stage, report: Report) -> None:
    # SciPy's optimizers are imported only here: they take 0.2 s to load, and most solves do not
    # need them.
    from scipy.optimize import minimize

    tried: list[Any] = []

    def descent(x: FloatArray) -> tuple[float, FloatArray]:
        x = np.maximum(x, 0.0)
        is_first, found = not tried, dual(x, stage.heats[0])
        tried[:] = x, found
        if is_first:
            report(x, found)
        return -found.smooth, -found.gradient

    def accept(_: FloatArray) -> None:
        # SciPy calls this function right after it accepts a step. The variables of that step are
        # those that SciPy evaluated last. ``tried`` has them, with their `Evaluation`.
        last[0] = tried[0]
        report(*tried)

    # "maxcor" is the number of previous steps from which L-BFGS-B estimates the curvature.
    options: dict[str, float] = {"maxiter": stage.steps, "maxfun": 20 * stage.steps, "maxcor": 20}
    options |= {"ftol": stage.tolerance, "gtol": 0.0}
    box = [(0.0, None)] * last[0].size
    minimize(
        descent, last[0], jac=True, method="L-BFGS-B", bounds=box, callback=accept, options=options
    )
