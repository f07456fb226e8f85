"""What one trial came to against the optimum, and many trials of a policy together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from online.policy_interface.specs import PolicySpec

from .ratios import (
    ROUNDS,
    SECONDS,
    Interval,
    Latency,
    waiting_of_optimum,
    waiting_ratio,
)

OPTIMA = ("optimum", "preemptive optimum")
"""What a ratio in rounds may be to, as tables name it: the optimum without preemption, and with."""

IN_SECONDS = "optimum in seconds"
"""What a ratio in seconds is to: the least of every scheduler, whatever it may do."""


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
    total_latency : int or Fraction or None
        Of the policy; None for a run that did not complete.
    evictions : int
        In the policy's run.
    optimum_upper, optimum_lower, optimum_certified : int or Fraction or None
        Best schedule known, lower bound in floating point, lower bound in exact arithmetic; None
        for what is not known. In seconds the last is the largest that is certified.
    stop_reason : str or None
        Why the solver stopped: ``"proof"``, ``"time-limit"``, ``"interrupted"``, ...
    solve_seconds : float or None
        The solver's, shared by all policies on the instance.
    reason : str or None
        Why there is no ratio, in one line; None where there is one.
    preemptive : bool
        Whether the optimum is that with preemption: the run preempted requests and kept their
        tokens, or the comparison asked for it.
    in_seconds : bool
        Whether the run and the optimum are in seconds, and so are the latencies here; otherwise
        they are in rounds.
    lower_bound : str or None
        In seconds, the name of the bound that is ``optimum_lower``.
    total_output_length : int or None
        Of the instance, in rounds: what no schedule's total latency is below. None in seconds and
        where there is no instance.
    schedule_digest : str or None
        Of the policy's schedule, to tell equal ones, in which equal requests may change places;
        None where it has none.
    """

    instance: str | None
    digest: str | None
    requests: int
    memory_limit: int
    policy: str
    params: Mapping[str, Any]
    seed: int
    status: str
    total_latency: Latency | None
    evictions: int
    optimum_upper: Latency | None
    optimum_lower: Latency | None
    optimum_certified: Latency | None = None
    stop_reason: str | None = None
    solve_seconds: float | None = None
    reason: str | None = None
    preemptive: bool = False
    in_seconds: bool = False
    lower_bound: str | None = None
    total_output_length: int | None = None
    schedule_digest: str | None = None

    def __repr__(self) -> str:
        found = self.status if self.ratio is None else f"ratio {self.ratio}"
        return f"Record({self.policy_label!r} on {self.instance!r}, {found})"

    @property
    def compared_with(self) -> str:
        """Name of the optimum."""
        return IN_SECONDS if self.in_seconds else OPTIMA[self.preemptive]

    @property
    def unit(self) -> str:
        """Of the latencies: ``"rounds"`` or ``"seconds"``."""
        return SECONDS if self.in_seconds else ROUNDS

    @property
    def mean_latency(self) -> Fraction | None:
        """Of the policy, per request."""
        return None if self.total_latency is None else Fraction(self.total_latency) / self.requests

    @property
    def mean_optimum(self) -> Interval:
        """Where the best possible mean latency lies."""
        return Interval(
            None if self.optimum_lower is None else Fraction(self.optimum_lower) / self.requests,
            None if self.optimum_upper is None else Fraction(self.optimum_upper) / self.requests,
        )

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

    @property
    def waiting(self) -> Latency | None:
        """The policy's total latency beyond the output lengths, in rounds."""
        if self.total_latency is None or self.total_output_length is None:
            return None
        return self.total_latency - self.total_output_length

    @property
    def optimum_waiting(self) -> Interval:
        """Where that of the optimum lies, by ``optimum_lower`` and ``optimum_upper``."""
        if self.total_output_length is None:
            return Interval(None, None)
        return waiting_of_optimum(self.optimum_lower, self.optimum_upper, self.total_output_length)

    @property
    def waiting_ratio(self) -> Interval | None:
        """The one over the other; None without a ratio, and where the optimum's may be 0."""
        return None if self.ratio is None else waiting_ratio(self.waiting, self.optimum_waiting)


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
    compared_with : str
        Name of the optimum.
    mean_latency : Fraction or None
        Per request, over the records with a ratio; None where there is none.
    ratio_of_waitings : Interval or None
        Sum of what total latencies are beyond the output lengths over that of the optima; None in
        seconds and where the optima's may be 0.
    """

    policy: str
    trials: int
    failed: int
    proved: int
    mean_ratio: Interval
    max_ratio: Interval
    ratio_of_totals: Interval
    compared_with: str = OPTIMA[0]
    mean_latency: Fraction | None = None
    ratio_of_waitings: Interval | None = None

    def __repr__(self) -> str:
        trials = f"{self.trials} trials, {self.failed} failed"
        return f"PolicySummary({self.policy!r}, {trials}, mean_ratio {self.mean_ratio})"

    @property
    def completed(self) -> int:
        """Records with a ratio."""
        return self.trials - self.failed

    @property
    def unit(self) -> str:
        """Of the latencies: ``"rounds"`` or ``"seconds"``."""
        return SECONDS if self.compared_with == IN_SECONDS else ROUNDS


def summarise(records: Sequence[Record]) -> list[PolicySummary]:
    """One summary for each policy and optimum compared with, see `grouped`."""
    return [summary for summary, _ in grouped(records)]


def grouped(records: Sequence[Record]) -> list[tuple[PolicySummary, list[Record]]]:
    """The records of each policy and optimum compared with, in order of appearance.

    Ratios to different optima are never averaged. A record without a ratio counts where the
    policy's first one with a ratio does: a failed run does not tell whether it would preempt.
    """
    first: dict[str, str] = {}
    for record in records:
        if record.ratio is not None:
            first.setdefault(record.policy_label, record.compared_with)
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        label, compared_with = record.policy_label, record.compared_with
        if record.ratio is None:
            compared_with = first.get(label, compared_with)
        groups.setdefault((label, compared_with), []).append(record)
    return [(_summary(*kind, found), found) for kind, found in groups.items()]


def _summary(policy: str, compared_with: str, records: list[Record]) -> PolicySummary:
    completed = [record for record in records if record.ratio is not None]
    ratios = [record.ratio for record in completed if record.ratio is not None]
    total = sum(r.total_latency for r in completed if r.total_latency is not None)
    totals = Interval.of_quotient(
        total,
        _sum([record.optimum_upper for record in completed]),
        _sum([record.optimum_lower for record in completed]),
    )
    waits = [record.optimum_waiting for record in completed]
    return PolicySummary(
        policy=policy,
        trials=len(records),
        failed=len(records) - len(completed),
        proved=sum(record.is_proved for record in completed),
        mean_ratio=Interval.mean_of(ratios),
        max_ratio=Interval.largest_of(ratios),
        ratio_of_totals=totals,
        compared_with=compared_with,
        mean_latency=Fraction(total) / sum(r.requests for r in completed) if completed else None,
        ratio_of_waitings=waiting_ratio(
            _sum([record.waiting for record in completed]),
            Interval.between(
                _sum([one.lower for one in waits]), _sum([one.upper for one in waits])
            ),
        ),
    )


def _sum(bounds: Sequence[Latency | None]) -> Latency | None:
    known = [bound for bound in bounds if bound is not None]
    return sum(known) if known and len(known) == len(bounds) else None
