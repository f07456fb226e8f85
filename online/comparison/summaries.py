"""Many trials of a policy together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from online.trials.intervals import ROUNDS, SECONDS, Interval, waiting_ratio

from .trial import IN_SECONDS, OPTIMA, Trial, to_one_optimum


@dataclass(frozen=True)
class PolicySummary:
    """A policy over its records. Those without a ratio enter no statistic.

    Attributes
    ----------
    policy : str
        Label.
    trials, failed : int
        Records, and those without a ratio: `Trial.reason` says why.
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
    share_on_time : Fraction or None
        Share of all requests on time; None without a service level.
    of_attainable : Interval or None
        Requests on time over the most possible, summed over all records with requests on time; None
        where one of these has no bound, as its run paused or preempted requests.
    to_optimum, to_preemptive_optimum : Interval or None
        Mean ratio to the optimum without preemption, and to the preemptive one; None where that
        optimum is unknown for some record with a ratio.
    instances : int
        Instances on which some row compared with this one has a ratio.
    missing : tuple[str, ...]
        Names of those on which this one has no ratio.
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
    share_on_time: Fraction | None = None
    of_attainable: Interval | None = None
    to_optimum: Interval | None = None
    to_preemptive_optimum: Interval | None = None
    instances: int = 0
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        trials = f"{self.trials} trials, {self.failed} failed"
        return f"PolicySummary({self.policy!r}, {trials}, mean_ratio {self.mean_ratio})"

    @property
    def completed(self) -> int:
        """Records with a ratio."""
        return self.trials - self.failed

    @property
    def unit(self) -> str:
        """Unit of the latencies: ``"rounds"`` or ``"seconds"``."""
        return SECONDS if self.compared_with == IN_SECONDS else ROUNDS


def summarise(records: Sequence[Trial]) -> list[PolicySummary]:
    """Summarise each policy, see `grouped`."""
    return [summary for summary, _ in grouped(records)]


def grouped(records: Sequence[Trial]) -> list[tuple[PolicySummary, list[Trial]]]:
    """Summarise and list the records of each policy, in order of appearance.

    Each policy is compared with one optimum, see `to_one_optimum`. A summary names the instances
    that it lacks and another row in the same unit has.
    """
    groups: dict[tuple[str, str], list[Trial]] = {}
    for record in to_one_optimum(records):
        groups.setdefault((record.policy_label, record.compared_with), []).append(record)
    covered = {kind: _covered(own) for kind, own in groups.items()}
    found = []
    for kind, own in groups.items():
        unit = own[0].unit
        every: dict[Hashable, str] = {}
        for other, names in covered.items():
            every |= names if groups[other][0].unit == unit else {}
        missing = tuple(name for place, name in every.items() if place not in covered[kind])
        summary = replace(summary_of(*kind, own), instances=len(every), missing=missing)
        found.append((summary, own))
    return found


def _covered(records: Sequence[Trial]) -> dict[Hashable, str]:
    """Name the instances on which all records have a ratio of which an end is known."""
    names: dict[Hashable, str] = {}
    seen: Counter[Hashable] = Counter()
    lacking = set()
    for one in records:
        # No digest: arrivals that answer to policies are another instance in every run. Instances
        # of one name are told apart by their order.
        name = one.instance or (one.digest or "")[:12]
        named = (one.experiment, one.version, one.family, one.predictions, one.draw, name)
        place = (*named, seen[*named, one.seed])
        seen[*named, one.seed] += 1
        names[place] = name
        if one.ratio is None or one.is_pending:
            lacking.add(place)
    return {place: name for place, name in names.items() if place not in lacking}


def summary_of(policy: str, compared_with: str, records: Sequence[Trial]) -> PolicySummary:
    """Summarise a policy's records, all compared with one optimum."""
    completed = [record for record in records if record.ratio is not None]
    ratios = [record.ratio for record in completed if record.ratio is not None]
    total = sum(r.total_latency for r in completed if r.total_latency is not None)
    optima = [Interval.between(one.optimum_lower, one.optimum_upper) for one in completed]
    timed = [record for record in completed if record.on_time is not None]
    most = [(one.on_time or 0, one.attainable) for one in timed if one.attainable is not None]
    waits = [record.waiting for record in completed if record.waiting is not None]
    return PolicySummary(
        policy=policy,
        trials=len(records),
        failed=len(records) - len(completed),
        proved=sum(record.is_proved for record in completed),
        mean_ratio=Interval.mean_of(ratios),
        to_optimum=_mean_of(record.to_optimum for record in completed),
        to_preemptive_optimum=_mean_of(record.to_preemptive_optimum for record in completed),
        max_ratio=Interval.largest_of(ratios),
        ratio_of_totals=Interval.of_share(total, Interval.sum_of(optima)),
        compared_with=compared_with,
        mean_latency=Fraction(total) / sum(r.weight for r in completed) if completed else None,
        ratio_of_waitings=waiting_ratio(
            sum(waits) if len(waits) == len(completed) else None,
            Interval.sum_of([record.optimum_waiting for record in completed]),
        ),
        share_on_time=Fraction(
            sum(one.on_time or 0 for one in timed), sum(one.requests for one in timed)
        )
        if timed
        else None,
        of_attainable=Interval.of_share(
            sum(count for count, _ in most), Interval.sum_of([one for _, one in most])
        )
        if most and len(most) == len(timed)
        else None,
    )


def _mean_of(ratios: Iterable[Interval | None]) -> Interval | None:
    """Return the mean ratio; None without any, and where one is not known."""
    own = list(ratios)
    known = [one for one in own if one is not None]
    return Interval.mean_of(known) if known and len(known) == len(own) else None
