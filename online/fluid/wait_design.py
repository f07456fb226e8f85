"""Thresholds for WAIT: the conditions of [A25] Theorem 1, and rules that choose within them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray
from instances.validation import as_integer, check_ranges, ranged

from .balance import PromptType, coefficients, token_load

Load = TypeVar("Load", bound=Sized)

ROUNDING = 1e-9
"""Differences up to this share of a threshold n_j count as 0, as in n_j = lambda_j DT(n)."""


@dataclass(frozen=True)
class Plan(ABC, Generic[Load]):
    """Base of the plans of WAIT and Nested WAIT: a workload, thresholds, and the iteration time.

    Attributes
    ----------
    workload : Load
        Types of prompts (WAIT) or segments (Nested WAIT).
    thresholds : tuple[int, ...]
        n_j, the number of prompts of type or segment j that a batch takes from each stage.
    d0, d1 : float
        Coefficients of the iteration time: d0 + d1 * (tokens of the batch) seconds.
    """

    workload: Load
    thresholds: tuple[int, ...] = ranged(minimum=1)
    d0: float = ranged(above=0)
    d1: float = ranged(minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "plan")
        if len(self.thresholds) != len(self.workload):
            reason = f"are not {len(self.workload)}"
            raise InvalidValueError("plan", "thresholds", self.thresholds, reason)

    @property
    @abstractmethod
    def batch_memory(self) -> float:
        """M_pi, tokens of a batch with all thresholds full: no batch holds more."""

    @property
    def batch_duration(self) -> float:
        """DT(n) = d0 + d1 M_pi, seconds of the longest iteration ([A25] Equation (18)).

        M_pi is `batch_memory`.
        """
        return self.d0 + self.d1 * self.batch_memory


@dataclass(frozen=True)
class WaitPlan(Plan[tuple[PromptType, ...]]):
    """Thresholds of WAIT for types of prompts, with the conditions of [A25] Theorem 1."""

    def __post_init__(self) -> None:
        token_load(self.workload)
        super().__post_init__()

    @property
    def batch_memory(self) -> int:
        """M_pi = sum_j n_j S_j, most tokens of a batch or all prompts in service.

        A stage has up to n_j prompts of type j; S_j is `PromptType.footprint`.
        """
        return sum(
            n * kind.footprint for n, kind in zip(self.thresholds, self.workload, strict=True)
        )

    @cached_property
    def drifts(self) -> tuple[float, ...]:
        """n_j - lambda_j DT(n) of each type: prompts served minus prompts arriving per iteration.

        n_j is the threshold and DT(n) is `batch_duration`, the longest iteration.
        """
        return tuple(
            n - kind.arrival_rate * self.batch_duration
            for n, kind in zip(self.thresholds, self.workload, strict=True)
        )

    @property
    def keeps_up(self) -> bool:
        """Whether DT(n) <= n_j / lambda_j for every type ([A25] Equation (11)).

        Then the throughput is within O(T^-1/2) of the fluid equilibrium's after T seconds.
        """
        return self._smallest_relative_drift >= -ROUNDING

    @property
    def keeps_up_strictly(self) -> bool:
        """Whether DT(n) < n_j / lambda_j for every type: [A25] Equation (11), strictly.

        Then the throughput is within O(1/T) of the fluid equilibrium's after T seconds, and the
        mean latency stays bounded.
        """
        return self._smallest_relative_drift > ROUNDING

    @property
    def _smallest_relative_drift(self) -> float:
        return min(drift / n for drift, n in zip(self.drifts, self.thresholds, strict=True))

    def as_parameter(self) -> Mapping[tuple[int, int], int]:
        """Return the thresholds as ``make_policy("wait", thresholds=...)`` takes them.

        Keys are (prefill length, decode length) of each type, values are thresholds.

        Raises
        ------
        InvalidValueError
            Two types have equal lengths, so that the policy cannot distinguish their prompts.
        """
        table = {
            (kind.prefill_length, kind.decode_length): n
            for kind, n in zip(self.workload, self.thresholds, strict=True)
        }
        if len(table) < len(self.workload):
            raise InvalidValueError("plan", "workload", self.workload, "has types of equal lengths")
        return table


def wait_thresholds(
    types: Sequence[PromptType], d0: float, d1: float, memory_limit: int | None = None
) -> WaitPlan:
    """Return the smallest thresholds n_j, about c lambda_j, that keep up and fit into memory.

    Thresholds keep up if n_j >= lambda_j DT(n) for every type ([A25] Theorem 1, Equation (11)), and
    fit if M_pi = sum_j n_j S_j <= C. S_j is the `PromptType.footprint`, DT(n) = d0 + d1 M_pi the
    longest iteration, DT* that of the `equilibrium`. [A25] has no rule for n_j. With
    W = sum_j lambda_j S_j, thresholds n_j = c lambda_j, not rounded, meet both exactly when
    c >= DT* and c W <= C. Here c grows from DT* until n_j > lambda_j DT(n) for every type with n_j
    rounded up. If such a plan does not fit, equality is accepted.

    If no plan keeps up and fits, because M* is close to C or above C, the result has the largest
    n_j = max(1, floor(c lambda_j)) that fit. `WaitPlan.keeps_up` is False then.

    Parameters
    ----------
    types, d0, d1 : Sequence[PromptType], float, float
        As in `equilibrium`.
    memory_limit : int or None, default None
        C, tokens; None for no limit.

    Raises
    ------
    InvalidValueError
        No memory limit and d1 W >= 1, or a limit below sum_j S_j, the memory for thresholds of 1.
    """
    d0, d1 = coefficients(d0, d1)
    kinds = tuple(types)
    load, limit = d1 * token_load(kinds), math.inf
    if memory_limit is not None:
        least = sum(kind.footprint for kind in kinds)
        limit = as_integer(memory_limit, None, "memory_limit", minimum=1)
        if limit < least:
            reason = f"is below {least} tokens, one prompt per stage"
            raise InvalidValueError(None, "memory_limit", limit, reason)
    elif load >= 1:
        raise InvalidValueError("workload", "load", load, "is not below 1: no thresholds keep up")
    if load < 1:
        for strictly in (True, False):
            plan = _first_that_keeps_up(kinds, d0, d1, limit, strictly)
            if plan is not None:
                return plan
    return WaitPlan(kinds, _largest_that_fit(kinds, limit), d0, d1)


def batch_cap_thresholds(
    types: Sequence[PromptType], batch_cap: int, *, as_printed: bool = False
) -> tuple[int, ...]:
    """Return thresholds of WAIT for a cap B on the number of prompts in a batch.

    They are n_j = B lambda_j / sum_i lambda_i (l'_i + 1), rounded down, at least 1. Section 6.1
    of [A25] has this rule in another form (``as_printed``). Here it agrees with Equation (11): n_j
    is proportional to lambda_j, and sum_j n_j (l'_j + 1) <= B unless thresholds of 1 exceed B.

    Parameters
    ----------
    types : Sequence[PromptType]
        The workload.
    batch_cap : int
        B, the most prompts in a batch.
    as_printed : bool, default False
        Return n_j = B rho_j / (l'_j + 1) with rho_j = lambda_j / sum_i lambda_i, as [A25] prints
        it. These n_j are not proportional to lambda_j: types with long outputs get less than
        Equation (11) requires (docs/fluid.md).

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No types, or a cap that is not a whole number >= 1.
    """
    token_load(types)
    cap = as_integer(batch_cap, None, "batch_cap", minimum=1)
    weights = [kind.arrival_rate * (1 if as_printed else kind.stages) for kind in types]
    total = math.fsum(weights)
    exact = [cap * kind.arrival_rate / total for kind in types]
    if as_printed:
        exact = [one / kind.stages for one, kind in zip(exact, types, strict=True)]
    return tuple(max(1, int(one + ROUNDING)) for one in exact)


def _first_that_keeps_up(
    kinds: tuple[PromptType, ...], d0: float, d1: float, limit: float, strictly: bool
) -> WaitPlan | None:
    """Return the smallest thresholds with n_j >= lambda_j DT(n), or None if they do not fit.

    Thresholds begin at 1. Each step raises them to the arrivals during the iteration of the
    thresholds before. DT(n) grows with n, so no step exceeds the smallest solution. ``strictly``
    asks for n_j > lambda_j DT(n).
    """
    rates, footprints = _columns(kinds)
    edge = ROUNDING if strictly else -ROUNDING
    counts = np.ones(len(kinds))
    while counts @ footprints <= limit:
        # ``needed`` is the least n above the arrivals, or equal to them if not ``strictly``. A
        # difference of at most `ROUNDING` times n counts as equal.
        least = rates * (d0 + d1 * (counts @ footprints)) / (1 - edge)
        needed = np.maximum(np.floor(least) + 1 if strictly else np.ceil(least), counts)
        if (needed == counts).all():
            return WaitPlan(kinds, tuple(int(n) for n in counts), d0, d1)
        counts = needed
    return None


def _largest_that_fit(kinds: tuple[PromptType, ...], limit: float) -> tuple[int, ...]:
    rates, footprints = _columns(kinds)
    highest = limit / float((rates * footprints).min())
    # n_j = max(1, floor(c lambda_j)) grows with c: bisect for the largest c that fits.
    low, high = 0.0, highest
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(1, np.floor(middle * rates)) @ footprints <= limit:
            low = middle
        else:
            high = middle
    at_step = np.maximum(1, np.floor(high * rates * (1 + ROUNDING)))
    counts = at_step if at_step @ footprints <= limit else np.maximum(1, np.floor(low * rates))
    return tuple(int(n) for n in counts)


def _columns(kinds: tuple[PromptType, ...]) -> tuple[FloatArray, FloatArray]:
    rates = np.array([kind.arrival_rate for kind in kinds])
    return rates, np.array([kind.footprint for kind in kinds], dtype=np.float64)
