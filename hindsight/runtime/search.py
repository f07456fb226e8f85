"""Options of every search: when it stops, where it starts, whom it tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_integer, as_number, as_time_limit

from .clock import Clock


@dataclass(frozen=True, eq=False)
class Search:
    """The options that every solve understands.

    Attributes
    ----------
    clock : Clock
        Time limit and interruptions.
    threads : int or None
        Of the solvers; None is each one's own choice.
    seed : int
        Of every random choice.
    start : Any
        A feasible schedule to start from, or None.
    gap : float
        Relative gap at which to stop.
    progress : Callable[[Any], None] or None
        Told of every improvement.
    """

    clock: Clock = field(default_factory=Clock)
    threads: int | None = None
    seed: int = 0
    start: Any = None
    gap: float = 0.0
    progress: Callable[[Any], None] | None = None

    @classmethod
    def checked(
        cls,
        time_limit: float | None = None,
        should_stop: Callable[[], bool] | None = None,
        **options: Any,
    ) -> Search:
        """Make a search that begins now, of options as a user gives them.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            A bad time limit, number of threads, seed or gap.
        """
        search = cls(Clock(as_time_limit(time_limit), should_stop), **options)
        if search.threads is not None:
            as_integer(search.threads, None, "threads", minimum=1)
        as_integer(search.seed, None, "seed", minimum=0)
        as_number(search.gap, None, "gap", minimum=0, maximum=1)
        return search

    def check_start(
        self, kinds: tuple[Any, ...], belongs: Callable[[Any], bool], elsewhere: str
    ) -> None:
        """Check that `start`, if there is one, is a feasible schedule of the problem.

        Parameters
        ----------
        kinds : tuple[type, ...]
            Kinds of schedules that are looked for.
        belongs : Callable[[Any], bool]
            Whether a schedule of these kinds is of the problem.
        elsewhere : str
            What one that is not belongs to.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            It is not.
        """
        start = self.start
        if start is None:
            return
        if not isinstance(start, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise InvalidTypeError(None, "start", start, f"is not a {names}")
        if not belongs(start):
            raise InvalidValueError(None, "start", start, f"belongs to {elsewhere}")
        violations = start.violations()
        if violations:
            raise InvalidValueError(None, "start", start, f"is infeasible: {violations[0]}")

    def part(
        self, time_limit: float | None, should_stop: Callable[[], bool] | None, **changes: Any
    ) -> Search:
        """Return a search that begins now, alike but for ``changes``, for a part of the work."""
        return replace(self, clock=Clock(time_limit, should_stop), **changes)
