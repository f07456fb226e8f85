"""What one trial came to against the optimum, and many trials of a policy together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .ratios import Interval
from .specs import PolicySpec

OPTIMA = ("optimum", "preemptive optimum")
"""What a ratio may be to, as tables name it: the optimum without preemption, and with."""


@dataclass(frozen=True)
class Record:
    """One policy on one instance, beside what is known of the instance's optimum.

    Attributes
    ----------
    instance, digest, requests, memory_limit : str or None, str or None, int, int
        The instance: name, content hash, n, M.
    policy, params : str, Mapping[str, Any]
        Registered name and parameters.
    seed : int
        Of every random choice of the run, and of the solver.
    status : str
        How the run ended: ``"completed"``, or why requests were left unserved: ``"refused"`` where
        the policy cannot take the instance, ``"time-limit"``, ``"interrupted"``, ``"failed"`` where
        it raised an error or its process died, ...
    total_latency : int or None
        Of the policy; None for a run that did not complete.
    evictions : int
        In the policy's run.
    optimum_upper, optimum_lower, optimum_certified : int or None
        Best schedule known, lower bound in floating point, lower bound in exact arithmetic; None
        for what is not known.
    stop_reason : str or None
        Why the solver stopped: ``"proof"``, ``"time-limit"``, ``"interrupted"``, ...
    solve_seconds : float or None
        The solver's, shared by all policies on the instance.
    reason : str or None
        Why there is no ratio, in one line; None where there is one.
    preemptive : bool
        Whether the optimum is that with preemption: the run preempted requests and kept their
        tokens, or the comparison asked for it.
    """

    instance: str | None
    digest: str | None
    requests: int
    memory_limit: int
    policy: str
    params: Mapping[str, Any]
    seed: int
    status: str
    total_latency: int | None
    evictions: int
    optimum_upper: int | None
    optimum_lower: int | None
    optimum_certified: int | None = None
    stop_reason: str | None = None
    solve_seconds: float | None = None
    reason: str | None = None
    preemptive: bool = False

    @property
    def compared_with(self) -> str:
        """Name of the optimum."""
        return OPTIMA[self.preemptive]

    @property
    def policy_label(self) -> str:
        """Policy with its parameters."""
        return PolicySpec(self.policy, self.params).label

    @property
    def is_proved(self) -> bool:
        """Whether the optimum is proved."""
        return self.optimum_upper is not None and self.optimum_upper == self.optimum_lower

    @property
    def ratio(self) -> Interval | None:
        """Total latency over the optimum; None where ``reason`` says why."""
        if self.total_latency is None or self.reason is not None:
            return None
        return Interval.of_quotient(self.total_latency, self.optimum_upper, self.optimum_lower)


@dataclass(frozen=True)
class PolicySummary:
    """A policy over its records of one optimum. Those without a ratio enter no statistic.

    Attributes
    ----------
    policy : str
        Label.
    trials, failed : int
        Records, and those without a ratio: `Record.reason` says why.
    proved : int
        Records with a ratio whose optimum is proved.
    mean_ratio : Interval
        Mean of the ratios.
    max_ratio : Interval
        Largest of them.
    ratio_of_totals : Interval
        Sum of total latencies over sum of optima.
    preemptive : bool
        Whether the optima are those with preemption.
    """

    policy: str
    trials: int
    failed: int
    proved: int
    mean_ratio: Interval
    max_ratio: Interval
    ratio_of_totals: Interval
    preemptive: bool = False

    @property
    def compared_with(self) -> str:
        """Name of the optimum."""
        return OPTIMA[self.preemptive]

    @property
    def completed(self) -> int:
        """Records with a ratio."""
        return self.trials - self.failed


def summarise(records: Sequence[Record]) -> list[PolicySummary]:
    """One summary for each policy and optimum compared with, see `grouped`."""
    return [summary for summary, _ in grouped(records)]


def grouped(records: Sequence[Record]) -> list[tuple[PolicySummary, list[Record]]]:
    """The records of each policy and optimum compared with, in order of appearance.

    Ratios to different optima are never averaged. A record without a ratio counts where the
    policy's first one with a ratio does: a failed run does not tell whether it would preempt.
    """
    first: dict[str, bool] = {}
    for record in records:
        if record.ratio is not None:
            first.setdefault(record.policy_label, record.preemptive)
    groups: dict[tuple[str, bool], list[Record]] = {}
    for record in records:
        label, preemptive = record.policy_label, record.preemptive
        if record.ratio is None:
            preemptive = first.get(label, preemptive)
        groups.setdefault((label, preemptive), []).append(record)
    return [(_summary(*kind, found), found) for kind, found in groups.items()]


def _summary(policy: str, preemptive: bool, records: list[Record]) -> PolicySummary:
    completed = [record for record in records if record.ratio is not None]
    ratios = [record.ratio for record in completed if record.ratio is not None]
    lowers, uppers = [r.lower for r in ratios], [r.upper for r in ratios]
    total = sum(r.total_latency for r in completed if r.total_latency is not None)
    totals = Interval.of_quotient(
        total,
        _sum([record.optimum_upper for record in completed]),
        _sum([record.optimum_lower for record in completed]),
    )
    return PolicySummary(
        policy=policy,
        trials=len(records),
        failed=len(records) - len(completed),
        proved=sum(record.is_proved for record in completed),
        mean_ratio=Interval(_mean(lowers), _mean(uppers)),
        # The largest ratio is at least every lower end and at most the largest upper end.
        max_ratio=Interval(
            max((end for end in lowers if end is not None), default=None),
            None if None in uppers else max((end for end in uppers if end), default=None),
        ),
        ratio_of_totals=totals,
        preemptive=preemptive,
    )


def _sum(bounds: list[int | None]) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return sum(known) if known and len(known) == len(bounds) else None


def _mean(ends: list[Fraction | None]) -> Fraction | None:
    known = [end for end in ends if end is not None]
    return sum(known, Fraction(0)) / len(known) if known and len(known) == len(ends) else None
