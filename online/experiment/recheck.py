"""What a trial has to satisfy before any figure of it is shown, whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from instances import Instance, InvalidValueError, Schedule

COMPLETED = "completed"

Stay = tuple[int, int, int]
"""(request index, start, end): in the batch in rounds start + 1 .. end."""


def recheck(
    owner: str,
    instance: Instance | None,
    status: str,
    schedule: Schedule | None,
    optimum: Schedule | None,
    optimum_lower: int | None,
    lost_attempts: Sequence[Stay],
    served: Sequence[tuple[int, int]],
) -> None:
    """Hold schedules, bounds and stays of a trial against its instance and one another.

    Parameters
    ----------
    owner : str
        What an error calls the trial.
    instance : Instance | None
        The problem.
    status : str
        Of the stored trial.
    schedule : Schedule or None
        The policy's; there is one where the run completed and nowhere else.
    optimum : Schedule or None
        The best schedule known in hindsight, or None.
    optimum_lower : int or None
        Proved lower bound on the optimum, or None.
    lost_attempts : Sequence[Stay]
        Stays that ended in an eviction.
    served : Sequence[tuple[int, int]]
        (request index, start) of those that a run which did not complete served.

    Raises
    ------
    InvalidValueError
        Figures that cannot all be true.
    """
    complete = schedule is not None
    if complete != (status == COMPLETED):
        shown = None if schedule is None else tuple(schedule.start_times.tolist())
        raise InvalidValueError(owner, "start_times", shown, f"do not go with status {status!r}")
    if complete and served:
        raise InvalidValueError(owner, "served", served, "is for runs that did not complete")
    for name, found in (("start_times", schedule), ("optimum", optimum)):
        if found is None:
            continue
        if violations := found.violations():
            raise InvalidValueError(owner, name, "a schedule", f"breaks: {violations[0]}")
        if optimum_lower is not None and found.total_latency < optimum_lower:
            reason = f"exceeds the total latency {found.total_latency} of {name}"
            raise InvalidValueError(owner, "optimum_lower", optimum_lower, reason)
    n = 0 if instance is None else len(instance)
    for attempt in lost_attempts:
        if not (0 <= attempt[0] < n and 0 <= attempt[1] < attempt[2]):
            raise InvalidValueError(owner, "lost_attempts", attempt, "is no stay of a request")
    for stay in served:
        if not (0 <= stay[0] < n and stay[1] >= 0):
            raise InvalidValueError(owner, "served", stay, "is no stay of a request")


def stays_of_run(
    status: str, attempts: Iterable[tuple[int, int, int, bool]]
) -> tuple[tuple[Stay, ...], tuple[tuple[int, int], ...]]:
    """``lost_attempts`` and ``served`` of a run, from (request, start, end, completed) each."""
    stays = list(attempts)
    lost = [(request, begin, end) for request, begin, end, done in stays if not done]
    served = [(request, begin) for request, begin, _, done in stays if done]
    return (
        # A stay that ended before its first round held nothing.
        tuple(stay for stay in lost if stay[1] != stay[2]),
        () if status == COMPLETED else tuple(served),
    )
