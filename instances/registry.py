"""Names for functions and classes: generators, policies, routers."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import InvalidTypeError, UnknownNameError
from .user_modules import FILE_MARK, main_name
from .validation import as_name

Thing = TypeVar("Thing")
Function = TypeVar("Function", bound=Callable[..., Any])


class Registry(dict[str, Thing]):
    """Things of one kind by name; an unknown name raises `UnknownNameError`.

    Parameters
    ----------
    kind : str
        What errors call one of them.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, name: str) -> Thing:
        raise UnknownNameError(self._kind, name, self.names())

    def names(self) -> list[str]:
        """Registered names, sorted."""
        return sorted(self)

    def register(self, name: str) -> Callable[[Function], Function]:
        """Decorator: keep a function or class by a name; see `add`."""

        def register(function: Function) -> Function:
            self.add(name, function)
            return function

        return register

    def add(self, name: str, function: Any) -> None:
        """Keep a function or class by a name, to be called from a decorator.

        What is defined again takes the place of what it was, with a warning: by the same module
        and qualified name, as in a notebook's cell that is run again, or in a cell or file that
        was edited and no longer defines what has the name.

        Raises
        ------
        ValueError
            Another function or class has the name.
        """
        name = as_name(name, None, f"name of a {self._kind}")
        if not callable(function):
            raise InvalidTypeError(None, self._kind, function, f"is no {self._kind}")
        known: Any = self.get(name)
        if known is not None:
            module = main_name(function.__module__)
            replaced = main_name(known.__module__) == module and not _stands(known)
            if _origin(known) != _origin(function) and not replaced:
                places = f"{_origin(known)} and {_origin(function)}"
                raise ValueError(f"{self._kind} {name!r} is registered twice, by {places}")
            told = f"{self._kind} {name!r} is replaced: {_origin(function)} is defined anew"
            # Above this: the decorator, and the line it decorates.
            warnings.warn(told, stacklevel=3)
        self[name] = function


def _origin(registered: Any) -> str:
    name = getattr(registered, "__qualname__", type(registered).__qualname__)
    module = main_name(registered.__module__)
    if FILE_MARK in module:
        return f"{getattr(sys.modules.get(module), '__file__', module)}:{name}"
    return f"{module}.{name}"


def _stands(registered: Any) -> bool:
    """Tell whether its module still has it: a notebook keeps what its cells no longer define."""
    module = sys.modules.get(registered.__module__)
    name = getattr(registered, "__qualname__", "")
    return hasattr(module, "__file__") and getattr(module, name, None) is registered
