"""Trials as tests write them down: start times, stays that were lost, and the optimum's starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instances import Instance, Schedule
from online.comparison import Trial


def trial_by_hand(  # noqa: PLR0913
    instance: Instance | None,
    policy: str,
    seed: int = 0,
    status: str = "completed",
    starts: Sequence[int] | None = None,
    lost: Sequence[tuple[int, int, int]] = (),
    served: Sequence[tuple[int, int]] = (),
    optimum: Sequence[int] | None = None,
    lower: int | None = None,
    **fields: Any,
) -> Trial:
    """A trial in rounds; of those served only the start is told."""
    return Trial.of_schedules(
        instance,
        policy,
        None if starts is None or instance is None else Schedule(instance, starts),
        None if optimum is None or instance is None else Schedule(instance, optimum),
        status=status,
        seed=seed,
        stays=[
            *((request, start, end, False) for request, start, end in lost),
            *((request, start, start + 1, True) for request, start in served),
        ],
        optimum_lower=lower,
        **fields,
    )
