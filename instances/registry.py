"""Registries, which map names to generators, policies or routers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import InvalidTypeError, UnknownNameError
from .user_modules import file_of, main_name
from .validation import as_name

Thing = TypeVar("Thing")
Function = TypeVar("Function", bound=Callable[..., Any])


class Registry(dict[str, Thing]):
    """Dict from names to functions or classes of one kind, such as generators or policies.

    Looking up an unknown name raises `UnknownNameError`.

    Parameters
    ----------
    kind : str
        The kind in error messages, such as ``"generator"``.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, name: str) -> Thing:
        raise UnknownNameError(self._kind, name, self.names())

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        return sorted(self)

    def register(self, name: str) -> Callable[[Function], Function]:
        """Return a decorator that registers a function or class under a name, as `add` does."""

        def register(function: Function) -> Function:
            self.add(name, function)
            return function

        return register

    def add(self, name: str, function: Any) -> None:
        """Register a function or class under a name. Decorators call this method.

        If the same module registers the name again, the new definition replaces the old one with a
        warning. This happens when an edited file is imported again or a notebook cell is run again.

        Raises
        ------
        ValueError
            A function or class of another module has the name.
        """
        name = as_name(name, None, f"name of a {self._kind}")
        if not callable(function):
            raise InvalidTypeError(None, self._kind, function, f"is not a {self._kind}")
        known: Any = self.get(name)
        if known is not None:
            if main_name(known.__module__) != main_name(function.__module__):
                places = f"{_origin(known)} and {_origin(function)}"
                raise ValueError(f"{self._kind} {name!r} is registered twice, by {places}")
            text = f"{self._kind} {name!r} is replaced: {_origin(function)} is defined again"
            # With level 3 the warning points to the decorated function, not to the decorator.
            warnings.warn(text, stacklevel=3)
        self[name] = function


def _origin(registered: Any) -> str:
    name = getattr(registered, "__qualname__", type(registered).__qualname__)
    file = file_of(registered)
    return f"{file}:{name}" if file else f"{main_name(registered.__module__)}.{name}"
