"""The answer: what could have been saved, and which policy gets how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from instances import Workload
from instances.arrays import FloatArray
from instances.batch_time import BatchTime
from online.comparison.ratios import Interval

from .runs import BestPossible, CurvePoint, PolicyRun

MEASURED = "measured"
"""How tables call what the log says itself."""

NEGLIGIBLE = Fraction(1, 100)
"""Share of a mean latency: where less is known to be saved, a policy's part of it tells nothing."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What a log says of its own latencies.

    Attributes
    ----------
    latencies : float64 array
        Seconds from arrival to completion of each request, shape (n,).
    """

    latencies: FloatArray

    @property
    def mean_latency(self) -> Fraction:
        """Seconds a request."""
        return sum(map(Fraction, self.latencies.tolist()), Fraction(0)) / len(self.latencies)


@dataclass(frozen=True)
class Saving:
    """What the best possible saves of the mean latency that is there today.

    Attributes
    ----------
    today : str
        Whose latency it is: `MEASURED`, or a policy.
    mean_latency : Fraction
        Its mean, seconds.
    seconds : Interval
        How much of it, a request.
    """

    today: str
    mean_latency: Fraction
    seconds: Interval

    @property
    def share(self) -> Interval:
        """The same, as a share of the mean latency."""
        ends = (self.seconds.lower, self.seconds.upper)
        return Interval(*(None if end is None else end / self.mean_latency for end in ends))

    @property
    def is_negligible(self) -> bool:
        """Whether no schedule is known that saves as much as `NEGLIGIBLE` of the mean latency."""
        return (self.share.lower or 0) < NEGLIGIBLE

    def part(self, mean_latency: Fraction) -> Interval:
        """The share of the headroom that a policy with this mean latency gets."""
        return Interval.of_share(self.mean_latency - mean_latency, self.seconds)


@dataclass(frozen=True, eq=False)
class Headroom:
    """What `measure_headroom` found.

    Attributes
    ----------
    workload : Workload
        The requests.
    batch_time : BatchTime
        Seconds of a round.
    load : float or None
        See `online.headroom.demand.load`.
    best : BestPossible or None
        Every run's schedule counts among the known ones. None where there was no time for it.
    no_best : str or None
        Why there is none.
    runs : tuple[PolicyRun, ...]
        Baseline and challenger first, with exact output lengths, then with predicted ones.
    points : tuple[CurvePoint, ...]
        Other memories and other loads.
    unfinished : tuple[str, ...]
        What there was no time for.
    baseline, challenger : str
        Labels of policies.
    error : float
        Of the predicted output lengths.
    measured : Measured or None
        What the log says itself.
    seconds : float
        That it took.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    workload: Workload
    batch_time: BatchTime
    load: float | None
    best: BestPossible | None
    no_best: str | None
    runs: tuple[PolicyRun, ...]
    points: tuple[CurvePoint, ...]
    unfinished: tuple[str, ...]
    baseline: str
    challenger: str
    error: float
    measured: Measured | None
    seconds: float
    interrupted: bool

    def run(self, policy: str, error: float = 0.0) -> PolicyRun | None:
        """That of a policy, if it completed."""
        wanted = (policy, error)
        found = (one for one in self.completed if (one.policy, one.error) == wanted)
        return next(found, None)

    @property
    def completed(self) -> list[PolicyRun]:
        """The runs that have a mean latency."""
        return [run for run in self.runs if run.mean_latency is not None]

    @property
    def savings(self) -> list[Saving]:
        """On the measured latency, where the log has it, then on that of the simulated baseline."""
        if self.best is None:
            return []
        found = []
        if self.measured is not None:
            found.append((MEASURED, self.measured.mean_latency))
        today = self.run(self.baseline)
        if today is not None and today.mean_latency is not None:
            found.append((today.policy, today.mean_latency))
        return [Saving(name, mean, self.best.mean_latency.below(mean)) for name, mean in found]

    @property
    def divisible(self) -> list[Saving]:
        """The savings of which a policy's share says something: none where the log contradicts."""
        if self.contradicts:
            return []
        return [saving for saving in self.savings if not saving.is_negligible]

    @property
    def contradicts(self) -> bool:
        """Whether the log measured less than the batch time lets any scheduler have."""
        if self.best is None or self.measured is None:
            return False
        return self.measured.mean_latency < (self.best.mean_latency.lower or 0)

    @property
    def memory_curve(self) -> list[CurvePoint]:
        """Points at the log's own load, by M."""
        points = [*(one for one in self.points if one.faster == 1), self._own_point]
        return sorted(points, key=lambda one: one.memory_limit)

    @property
    def load_curve(self) -> list[CurvePoint]:
        """Points at the log's own M, by load."""
        points = [*(one for one in self.points if one.faster != 1), self._own_point]
        return sorted(points, key=lambda one: one.faster)

    @property
    def _own_point(self) -> CurvePoint:
        runs = (self.run(self.baseline), self.run(self.challenger))
        known = tuple(run for run in runs if run is not None)
        return CurvePoint(self.workload.memory_limit, 1.0, self.load, self.best, known)
