"""Strategies of one's own, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from hindsight.outcomes.results import Goal
from instances import InvalidTypeError, InvalidValueError
from instances.registry import Registry
from instances.user_modules import described

from .strategy import Strategy

METHOD_NAMES = ("auto", "paths", "configurations", "counts", "mip", "beams")
"""Those of this package."""

StrategyClass = TypeVar("StrategyClass", bound=Callable[[], object])


@dataclass(frozen=True)
class OwnStrategy:
    """A strategy of the user's; called, it makes a `Strategy`.

    Attributes
    ----------
    name : str
        The registered name, or that of the class.
    function : Any
        A class or function that makes it, or the strategy itself.
    """

    name: str
    function: Any

    def __call__(self) -> Strategy:
        """Make the strategy and check its ``objectives``.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            It cannot be made, is no strategy, or has objectives that are no goals.
        """
        found = self.function
        if not _is_strategy(found):
            found = described(found, self.name, "method")
        if not isinstance(found, Strategy):
            reason = f"makes {found!r}, which is no Strategy"
            raise InvalidTypeError(None, "method", self.name, reason)
        owner, field, objectives = f"method {found.name!r}", "objectives", found.objectives
        # A text is none: ``in`` finds every part of it.
        if not isinstance(objectives, (tuple, list, set, frozenset)):
            raise InvalidTypeError(owner, field, objectives, "is no tuple")
        goals = get_args(Goal)
        if not objectives or not all(one in goals for one in objectives):
            reason = f"is not of one or more of {', '.join(goals)}"
            raise InvalidValueError(owner, field, objectives, reason)
        return found


def _is_strategy(given: object) -> bool:
    return isinstance(given, Strategy) and not isinstance(given, type)


STRATEGIES: Registry[OwnStrategy] = Registry(
    "method",
    OwnStrategy,
    reserved=METHOD_NAMES,
    fits=lambda given: callable(given) or _is_strategy(given),
)


def register_strategy(name: str) -> Callable[[StrategyClass], StrategyClass]:
    """Class decorator: make the strategy known as ``solve(..., method=name)``.

    The class follows `hindsight.strategies.strategy.Strategy` and is made without arguments: a
    strategy with others is given to ``method`` as an object. It needs no base class.
    `hindsight.check_strategy` tries it.

    It is trusted in nothing but bounds. A schedule that it offers is checked and costed anew. A
    bound that it raises with ``certified=True`` is *its* word for having proved it in exact
    arithmetic, and one with ``certified=False`` its word for having proved it at all: whoever
    cannot vouch for that calls ``state.raise_conditional`` instead.

    A class of the same module and qualified name takes the place of the one before, with a warning.

    Raises
    ------
    ValueError
        Another class has the name, or a method of this package.
    """
    return STRATEGIES.register(name)


def strategy_names() -> list[str]:
    """The registered strategies, sorted."""
    return STRATEGIES.names()
