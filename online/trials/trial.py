"""A trial: the run of a policy on a problem, and the bounds known on the optimum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

from .intervals import LATENCY, MAKESPAN, Interval, Latency

COMPLETED, FAILED, REFUSED, NOT_RUN = "completed", "failed", "refused", "not run"
"""Values of `Trial.status`: all requests served, an error, an invalid argument, run not begun."""

NUMBERS = ("cost", "lower", "upper", "certified")

KEY = (
    *("batch_time", "policy", "code", "router", "predictions", "seed", "goal"),
    *("asked", "version"),
)


@dataclass(frozen=True)
class Trial:
    """The run of a policy on a problem, and bounds on the optimum that it is compared with.

    Attributes
    ----------
    instance, digest, requests, memory_limit : str, str, int, int
        Name, content hash, number of requests and memory limit of the problem.
    group : str
        Label of the group of the problem in the sweep. It is not part of the hash `key`.
    policy, router, predictions : str
        Labels of the policy, the router and the prediction model, with parameters. ``router`` is
        empty on one machine.
    seed : int
        Seed of all random choices of the run.
    goal : str
        ``"latency"``, ``"makespan"``, or ``"on time"`` and the limits of the service level.
    preemption : str
        Whether the schedules over which the optimum is taken may preempt requests: ``"never"``,
        ``"keep"`` or ``"recompute"``, as in `hindsight.solve`.
    batch_time : str
        Model of the seconds of a round, as text. Empty if time is counted in rounds.
    status : str
        ``"completed"``, or why the run has no cost: ``"failed"`` (it raised an error or its worker
        died), ``"refused"``, ``"livelock"``, ``"stalled"``, ``"round-limit"``, ``"time-limit"``,
        ``"not run"``.
    reason : str
        Why the trial has no ratio, in one line. Empty if it has one.
    cost : int or Fraction or None
        Exact cost of the run for the goal: total latency or makespan (rounds or seconds), or number
        of requests on time.
    lower, upper : int or Fraction or None
        Bounds on the optimum: the best value of ``cost`` over all schedules.
    certified : int or Fraction or None
        Lower bound on the least total latency that is proved without a floating-point solver, at
        most ``lower``.
    bound, stop_reason : str
        Name of the method that computed the bound, and why the search for the optimum ended.
    evictions : int
        Number of evictions and preemptions in the run.
    weight : int
        Sum of the weights of the requests.
    time_limit : float or None
        Time limit of the search for the optimum, in seconds.
    asked : str
        Value of ``preemption`` if the user or a library record has set it. Empty if not, and always
        empty in seconds.
    source : str
        Name of the arrival source that created requests during the run. Empty without one.
    code, version : str
        Digest of the source file of a user-defined policy, and version of this package.
    """

    instance: str
    digest: str
    requests: int
    memory_limit: int
    policy: str
    group: str = ""
    router: str = ""
    predictions: str = "exact"
    seed: int = 0
    goal: str = LATENCY
    preemption: str = "never"
    batch_time: str = ""
    status: str = NOT_RUN
    reason: str = ""
    cost: Latency | None = None
    lower: Latency | None = None
    upper: Latency | None = None
    certified: Latency | None = None
    bound: str = ""
    stop_reason: str = ""
    evictions: int = 0
    weight: int = 0
    time_limit: float | None = None
    asked: str = ""
    source: str = ""
    code: str = ""
    version: str = ""

    def __repr__(self) -> str:
        found = self.status if self.ratio is None else f"ratio {self.ratio}"
        return f"Trial({self.policy!r} on {self.instance!r}, {found})"

    @property
    def key(self) -> str:
        """Hash of the attributes that define a trial. Of trials with equal keys a store keeps one.

        These attributes are the problem, the policy with its code and parameters, predictions,
        router, seed, goal, and the version of the package.
        """
        named = [self.problem, *(getattr(self, name) for name in KEY)]
        return sha256(repr(named).encode()).hexdigest()[:20]

    @property
    def problem(self) -> str:
        """Name of the arrival source, or the digest of the problem if all requests are given."""
        return self.source or self.digest

    @property
    def compared_with(self) -> str:
        """Name in tables of the optimum by which the cost is divided to give the ratio."""
        if self.goal == MAKESPAN:
            return "least makespan"
        if self.goal != LATENCY:
            return "most requests on time"
        if self.batch_time:
            return "optimum in seconds"
        return "optimum" if self.preemption == "never" else "preemptive optimum"

    @property
    def optimum(self) -> Interval:
        """Interval from ``lower`` to ``upper``, which contains the optimum of the goal."""
        return Interval.between(self.lower, self.upper)

    @property
    def is_proved(self) -> bool:
        """Whether the optimum is known: both bounds are equal."""
        return self.lower is not None and self.lower == self.upper

    @property
    def ratio(self) -> Interval | None:
        """Cost divided by the optimum, as an interval; None without a cost or with a ``reason``."""
        if self.cost is None or self.reason:
            return None
        return Interval.of_share(self.cost, self.optimum)

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as a dictionary for JSON, without those that have default values.

        Fractions are written as text, so that they stay exact.
        """
        return {
            one.name: str(value) if isinstance(value, Fraction) else value
            for one in fields(self)
            if (value := getattr(self, one.name)) != one.default
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Trial:
        """Return the trial that is stored in a document from `to_json`.

        Raises
        ------
        TypeError, ValueError
            The document has other attributes, or a number that cannot be read.
        """
        numbers = {
            name: Fraction(value) if isinstance(value := stored[name], str) else value
            for name in NUMBERS
            if name in stored
        }
        return cls(**{**stored, **numbers})


def with_best_bounds(trials: Iterable[Trial]) -> list[Trial]:
    """Return copies of trials, each with the best bounds on its optimum that any of them has.

    All trials that are compared with the same optimum then have the same bounds on it. The cost of
    a completed run is a bound too: the run has a feasible schedule, so the optimum is equal or
    better.
    """
    given = list(trials)
    best: dict[Any, Trial] = {}
    for one in given:
        best[_optimum(one)] = _better(best.get(_optimum(one), one), one)
    return [
        replace(one, **{name: getattr(best[_optimum(one)], name) for name in OF_OPTIMUM})
        for one in given
    ]


OF_OPTIMUM = ("lower", "upper", "certified", "bound", "stop_reason", "time_limit")
"""Attributes of `Trial` that describe the optimum and the search for it, not the run."""


def _optimum(trial: Trial) -> tuple[str, ...]:
    return trial.digest, trial.batch_time, trial.goal, trial.preemption, trial.version


def _better(known: Trial, other: Trial) -> Trial:
    """Return the trial ``known`` with the best bounds that both trials have on their optimum.

    Both trials are compared with the same optimum. The costs of their runs count as bounds too.
    """
    ends = [known.lower, other.lower], [known.upper, other.upper]
    for one in (known, other):
        if one.status == COMPLETED and not one.reason:
            ends[one.goal == MAKESPAN or one.goal == LATENCY].append(one.cost)
    lower = max((end for end in ends[0] if end is not None), default=None)
    upper = min((end for end in ends[1] if end is not None), default=None)
    certified = [end for end in (known.certified, other.certified) if end is not None]
    found = other if other.lower is not None and lower == other.lower else known
    named = {name: getattr(found, name) for name in ("bound", "stop_reason", "time_limit")}
    return replace(known, lower=lower, upper=upper, certified=max(certified, default=None), **named)


def one_line(error: BaseException) -> str:
    """Return the type and the message of an error in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def as_row(trial: Trial) -> dict[str, Any]:
    """Return a row of a table: the attributes of a trial, ``ratio`` and ``proved``, by name."""
    row = asdict(trial)
    return {**row, "ratio": trial.ratio, "proved": trial.is_proved}
