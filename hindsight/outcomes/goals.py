"""Goals that a solve can minimise or maximise.

Every goal is minimised. So the goal `OnTime` counts late requests during a solve, and `Result`
converts their number into requests on time.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from instances import InvalidValueError
from instances.batch_time.exact import exact_seconds
from instances.service_level import AnyLevel
from instances.validation import as_fraction

Preemption = Literal["never", "keep", "recompute"]
"""Whether a running request may be preempted, and whether its tokens are kept or recomputed."""

Late = Literal["drop", "serve"]
"""Whether late requests are left out of the schedule, or served as well."""

TailOf = Literal["latency", "first_token"]
"""Which quantile: of latency (arrival to last token), or of time to first token."""


@dataclass(frozen=True)
class OnTime:
    """Goal: the most requests on time.

    The optimum is the same whether late requests are dropped or served, because they can be served
    after all others. Only the schedule differs. Weights are ignored.

    Parameters
    ----------
    level : ServiceLevel or Sequence[ServiceLevel]
        One service level for all requests or one for each, in rounds or in seconds.
    late : {"drop", "serve"}, default "drop"
        Whether the schedule leaves late requests out, or serves them too.

    Raises
    ------
    InvalidValueError
        ``late`` is neither ``"drop"`` nor ``"serve"``.
    """

    level: AnyLevel
    late: Late = "drop"

    def __post_init__(self) -> None:
        if self.late not in get_args(Late):
            raise InvalidValueError("OnTime", "late", self.late, "is not one of drop, serve")


@dataclass(frozen=True)
class Tail:
    """Goal: the least quantile of latency or of time to first token.

    Parameters
    ----------
    quantile : float
        Above 0, at most 1. 0.99 is p99: the k-th smallest of n values, with k = 0.99 n rounded up.
    of : {"latency", "first_token"}, default "latency"
        Time from arrival to the last token, or to the first.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The quantile is not a number in this range, or ``of`` is not one of the values above.
    """

    quantile: float
    of: TailOf = "latency"

    def __post_init__(self) -> None:
        as_fraction(self.quantile, "Tail", "quantile", above=0, maximum=1)
        if self.of not in get_args(TailOf):
            known = ", ".join(get_args(TailOf))
            raise InvalidValueError("Tail", "of", self.of, f"is not one of {known}")


Goal: TypeAlias = Literal["latency", "makespan"] | OnTime | Tail


def exact_total_latency(schedule: Any) -> Fraction | None:
    """Return total latency as a fraction, or None if the batch time is not known exactly.

    Arrival times count as the decimals that they are written as. So does the start of a round for
    which the schedule lets the machine wait.
    """
    if exact_seconds(schedule.problem.batch_time) is None:
        return None
    return sum((sum(one.exact_times[0]) for one in schedule.machines), Fraction(0))
