"""Policies that order requests by the solution of a linear relaxation ([W25] Algorithms 6 and 7).

They need the package `hindsight` with its solver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from instances import Instance, InvalidTypeError
from instances.arrays import FloatArray, IntArray
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH
from online.policy_interface import register_policy
from online.policy_interface.policy import DecisionStoppedError

from .batch_builders import greedy_fill, local_swap
from .planned import PlannedPrefixPolicy, shortest_output_first

Relaxer = Callable[[Instance], Any]
"""Function that solves a relaxation. Its result has an attribute ``expected_start_times``."""


class RelaxationOrder(PlannedPrefixPolicy):
    """Base class of policies that order waiting requests by the solution of an LP relaxation.

    The linear program (LP) has only the waiting requests, as if all of them had just arrived on an
    empty machine.

    Parameters
    ----------
    relaxation : Relaxer or None, default None
        Function that solves the relaxation. None solves Relax-LP of [W25] Equations (8)-(11).
    """

    def __init__(self, relaxation: Relaxer | None = None) -> None:
        if relaxation is not None and not callable(relaxation):
            raise InvalidTypeError("policy", "relaxation", relaxation, "is not a function")
        self._relaxer = relaxation or self._relax_lp

    def _relax_lp(self, instance: Instance) -> Any:
        # `hindsight` is imported only when needed: all other policies work without a solver.
        import hindsight
        from hindsight.relaxation import relax_until

        try:
            return relax_until(self.should_stop, instance)
        except hindsight.SolverError:
            if self.should_stop is not None and self.should_stop():
                raise DecisionStoppedError from None
            raise

    def _start(self, now: int) -> list[int]:
        """Return the requests to start now.

        If all waiting requests fit at once, they start, and no linear program is solved.
        """
        if not self._plan and self._joining and not len(self._pool) and self._all_fit(now):
            self._plan.extend(sorted(request.index for request in self._joining))
            self._joining.clear()
        return super()._start(now)

    def _all_fit(self, now: int) -> bool:
        counted: list[tuple[int, int]] = []
        for footprint in map(self._footprint, self._joining):
            if not self._fits(*footprint, now):
                break
            self._forecast.add(now, *footprint)
            counted.append(footprint)
        for footprint in counted:
            self._forecast.remove(now, *footprint)
        return len(counted) == len(self._joining)

    def expected_starts(self, prompts: IntArray, outputs: IntArray) -> FloatArray:
        """Solve the relaxation of the waiting requests.

        Return the mean start of each, in rounds from now.
        """
        metadata = {ALLOW_ZERO_PROMPT_LENGTH: bool((prompts == 0).any())}
        limit = self._memory_limit
        instance = Instance.from_arrays(prompts, outputs, memory_limit=limit, metadata=metadata)
        # Round the mean starts. Otherwise errors of the solver, which differ between machines,
        # would decide the order of equal mean starts.
        starts: FloatArray = self._relaxer(instance).expected_start_times
        return np.round(starts, 6)


@register_policy("sorted-lp")
class SortedLP(RelaxationOrder):
    """Smallest mean start in the LP relaxation first ([W25] Algorithm 6).

    The mean start of request i is the sum over t of t x_{i,t}, where x_{i,t} is the share of
    request i that the relaxation starts in round t. Requests start in order of mean start, up to
    the first that does not fit under the look-ahead test.

    No ratio is proved for this policy. When all requests of the last order have started, a linear
    program is solved for the requests that wait then. If these all fit at once, they start without
    a program. If all requests arrive at the same time, at most one program is solved. Mean starts
    are rounded to six decimals. Requests with equal mean starts, which the paper does not order,
    start in order of appearance.
    """

    def next_batch(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return the array positions of all waiting requests, in order of mean start."""
        return np.argsort(self.expected_starts(prompts, outputs), kind="stable")


@register_policy("lp-swap")
class LPSwap(RelaxationOrder):
    """Batches filled by mean start in a relaxation, improved by exchanges ([W25] Algorithm 7).

    No guarantee is known. As with `sorted-lp`, a linear program gives the mean start of each
    waiting request. All waiting requests are then divided into batches. A batch takes requests in
    order of mean start, if their peaks (prompt + output length) still fit into memory together. It
    is improved by exchanges as in `sorted-f-swap`. Its requests start in order of output length.
    """

    def next_batch(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return the array positions of all waiting requests, in the order of the batches."""
        peaks = prompts + outputs
        left = np.argsort(self.expected_starts(prompts, outputs), kind="stable")
        plan: list[IntArray] = []
        while len(left):
            start = greedy_fill(peaks[left], self._memory_limit)
            chosen = local_swap(prompts[left], outputs[left], self._memory_limit, start)
            plan.append(shortest_output_first(outputs, left[chosen]))
            left = np.delete(left, chosen)
        return np.concatenate(plan)
