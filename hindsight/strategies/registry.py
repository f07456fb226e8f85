"""Strategies of one's own, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, get_args

from hindsight.extensions.registry import Registry
from hindsight.outcomes.results import Goal
from instances import InvalidTypeError, InvalidValueError
from instances.user_modules import described

from .strategy import Strategy

METHOD_NAMES = ("auto", "paths", "configurations", "counts", "mip", "beams", "tables")
"""Those of this package; ``"tables"`` is a former one."""

StrategyClass = TypeVar("StrategyClass", bound=Callable[[], object])


def _made_of(name: str, given: object) -> Callable[[], Strategy] | None:
    if isinstance(given, Strategy) and not isinstance(given, type):
        strategy = given
        return lambda: with_goals(strategy)
    if not callable(given):
        return None

    def made() -> Strategy:
        found = described(given, name, "method")
        if not isinstance(found, Strategy):
            raise InvalidTypeError(None, "method", name, f"makes {found!r}, which is no Strategy")
        return with_goals(found)

    return made


def with_goals(strategy: Strategy) -> Strategy:
    """The strategy, whose ``objectives`` name goals.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        They are a text, of which ``in`` finds every part, or there are none, or one is no goal.
    """
    owner, field, objectives = f"method {strategy.name!r}", "objectives", strategy.objectives
    if not isinstance(objectives, (tuple, list, set, frozenset)):
        raise InvalidTypeError(owner, field, objectives, "is no tuple")
    goals = get_args(Goal)
    if not objectives or not all(one in goals for one in objectives):
        reason = f"is not of one or more of {', '.join(goals)}"
        raise InvalidValueError(owner, field, objectives, reason)
    return strategy


STRATEGIES: Registry[Callable[[], Strategy]] = Registry("method", _made_of, METHOD_NAMES)


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

    def register(strategy: StrategyClass) -> StrategyClass:
        made = _made_of(name, strategy)
        if made is None:
            raise InvalidTypeError(None, "strategy", strategy, "is no class")
        STRATEGIES.add(name, strategy, made)
        return strategy

    return register


def strategy_names() -> list[str]:
    """The registered strategies, sorted."""
    return STRATEGIES.names()
