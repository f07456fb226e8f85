"""Options common to all searches: stop criteria, threads, seed, start and callback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from instances.errors import InvalidValueError
from instances.validation import as_integer, as_number, as_time_limit

from .clock import Clock
from .resources import available_cores


def refuse(reason: str, **given: bool) -> None:
    """Raise an error if one of some parameters was given.

    ``given`` maps each name to whether the parameter was given, and ``reason`` completes the
    message "parameter NAME ...".

    Raises
    ------
    InvalidValueError
        One of the parameters was given.
    """
    for name, is_given in given.items():
        if is_given:
            raise InvalidValueError(None, "parameter", name, reason)


@dataclass(frozen=True, eq=False)
class Search:
    """Options that every solve accepts.

    Attributes
    ----------
    clock : Clock
        Time limit and interruptions.
    threads : int or None
        Threads of the solvers; None leaves the choice to each solver.
    seed : int
        Seed of every random choice.
    start : Any
        A feasible schedule to start from, or None.
    gap : float
        Relative gap at which to stop.
    progress : Callable[[Any], object] or None
        Called at every improvement of the bounds.
    """

    clock: Clock = field(default_factory=Clock)
    threads: int | None = None
    seed: int = 0
    start: Any = None
    gap: float = 0.0
    progress: Callable[[Any], object] | None = None

    @classmethod
    def checked(
        cls,
        time_limit: float | None = None,
        should_stop: Callable[[], bool] | None = None,
        **options: Any,
    ) -> Search:
        """Create the options of a search that begins now, from user input.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            A time limit, number of threads, seed or gap is invalid.
        """
        search = cls(Clock(as_time_limit(time_limit), should_stop), **options)
        if search.threads is not None:
            as_integer(search.threads, None, "threads", minimum=1)
        as_integer(search.seed, None, "seed", minimum=0)
        as_number(search.gap, None, "gap", minimum=0, maximum=1)
        return search

    @property
    def cores(self) -> int:
        """Return `threads`, or the number of available cores if it is None."""
        return self.threads or available_cores()

    def part(
        self, time_limit: float | None, progress: Callable[[Any], object] | None = None
    ) -> Search:
        """Return options for a part of this search that begins now and stops with it, at gap 0."""
        clock = Clock(time_limit, self.clock.must_stop)
        return replace(self, clock=clock, start=None, progress=progress, gap=0.0)

    def report(self, news: Any) -> None:
        """Call ``progress``, if given, with a report; interrupt the search if it returns True."""
        if self.progress is not None and self.progress(news) is True:
            self.clock.interrupt()
