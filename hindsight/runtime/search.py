"""Options common to all solves: stop criteria, threads, seed, first schedule and callback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from instances.errors import InvalidValueError
from instances.validation import as_integer, as_number, as_time_limit

from .clock import Clock
from .resources import available_cores


def refuse(reason: str, **given: bool) -> None:
    """Raise an error if the user gave a parameter that cannot be used with the other parameters.

    Parameters
    ----------
    reason : str
        Reason why the parameters cannot be used, as the end of the message "parameter = NAME ...".
    **given : bool
        One keyword argument for each parameter that cannot be used: its name, and whether the user
        gave it.

    Raises
    ------
    InvalidValueError
        The user gave one of the parameters.
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
        Time limit and interruptions of the solve.
    threads : int or None
        Number of threads that each solver and search may use. With None each chooses the number.
    seed : int
        Seed of all random choices.
    start : Any
        A feasible schedule from which the solve starts, or None.
    gap : float
        Relative gap between the bounds, from 0 to 1, at which the solve may stop.
    progress : Callable[[Any], object] or None
        Callback of the user, called with a report at every improvement of a bound. If it returns
        True, the solve is interrupted.
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
        """Create search options from user input, and begin the time limit now.

        Parameters
        ----------
        time_limit : float or None, default None
            Seconds from now on. None for no limit.
        should_stop : Callable[[], bool] or None, default None
            Stop callback of the user. Once it returns True, the solve is interrupted.
        **options : Any
            Other attributes of this class.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            The time limit, the number of threads, the seed or the gap is not an allowed number.
        """
        search = cls(Clock(as_time_limit(time_limit), should_stop), **options)
        if search.threads is not None:
            as_integer(search.threads, None, "threads", minimum=1)
        as_integer(search.seed, None, "seed", minimum=0)
        as_number(search.gap, None, "gap", minimum=0, maximum=1)
        return search

    @property
    def cores(self) -> int:
        """Return `threads`, or the number of available cores if `threads` is None."""
        return self.threads or available_cores()

    def solver_options(self) -> dict[str, Any]:
        """Return options of `hindsight.exact.highs.solve_linear`, with the time that is left."""
        limits = {"time_limit": self.clock.limit_left(), "should_stop": self.clock.must_stop}
        return {"threads": self.threads, "seed": self.seed, **limits}

    def report(self, news: Any) -> None:
        """Call the ``progress`` callback with the report ``news``, if the user gave a callback.

        If the callback returns True, interrupt the search.
        """
        if self.progress is not None and self.progress(news) is True:
            self.clock.interrupt()
