"""Goals that a solve can minimise or maximise.

During a solve every goal is a cost to minimise. So the cost of the goal `OnTime` is the number of
late requests. `Result` converts it into the number of requests on time.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from instances.batch_time.exact import exact_seconds
from instances.service_level import AnyLevel
from instances.validation import as_choice, as_fraction

Preemption = Literal["never", "keep", "recompute"]
"""Whether schedules may stop a request and resume it later, with its tokens kept or recomputed."""

Late = Literal["drop", "serve"]
"""Whether schedules leave out the requests that would be late (drop), or serve them too."""

TailOf = Literal["latency", "first_token"]
"""Time whose quantile is minimised: latency (arrival to last token), or time to first token."""


@dataclass(frozen=True)
class OnTime:
    """Goal: maximise the number of requests on time.

    A request is on time if it keeps all limits of its service level. The optimum is the same
    whether late requests are dropped or served, because a schedule can serve late requests after
    all others. Weights of requests are ignored.

    Parameters
    ----------
    level : ServiceLevel or Sequence[ServiceLevel]
        One service level for all requests, or one for each request. Its limits on times are in
        rounds for an instance and in seconds for a workload.
    late : {"drop", "serve"}, default "drop"
        Whether the schedule leaves out the requests that would be late, or serves them too.

    Raises
    ------
    InvalidValueError
        ``late`` is neither ``"drop"`` nor ``"serve"``.
    """

    level: AnyLevel
    late: Late = "drop"

    def __post_init__(self) -> None:
        as_choice(self.late, "OnTime", "late", get_args(Late))


@dataclass(frozen=True)
class Tail:
    """Goal: minimise a quantile, over all requests, of latency or of time to first token.

    Parameters
    ----------
    quantile : float
        Level of the quantile, above 0 and at most 1. The value 0.99 means p99: the k-th smallest
        of the times of n requests, where k is 0.99 n, rounded up.
    of : {"latency", "first_token"}, default "latency"
        ``"latency"`` is the time from a request's arrival to its last token. ``"first_token"`` is
        the time from its arrival to its first token.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        ``quantile`` is not a number above 0 and at most 1, or ``of`` is neither ``"latency"`` nor
        ``"first_token"``.
    """

    quantile: float
    of: TailOf = "latency"

    def __post_init__(self) -> None:
        as_fraction(self.quantile, "Tail", "quantile", above=0, maximum=1)
        as_choice(self.of, "Tail", "of", get_args(TailOf))


Goal: TypeAlias = Literal["latency", "makespan"] | OnTime | Tail


def exact_total_latency(schedule: Any) -> Fraction | None:
    """Return the exact total latency of a schedule in seconds, as a fraction.

    Return None if the batch time has no exact formula. Floats in the input count as the decimal
    numbers that they are written as: 0.1 is 1/10. Such floats are the parameters of the batch time,
    the arrival times, and the start of each round before which the machine waits.
    """
    if exact_seconds(schedule.problem.batch_time) is None:
        return None
    return sum((sum(one.exact_times[0]) for one in schedule.machines), Fraction(0))
