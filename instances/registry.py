"""Names for functions and classes: generators, policies, bounds."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar, cast

from .errors import InvalidTypeError, InvalidValueError, UnknownNameError
from .sources import FILE_MARK, main_name, remember
from .user_modules import SUFFIX, attribute_of, import_source, is_file_name
from .validation import as_name

Thing = TypeVar("Thing")
Function = TypeVar("Function", bound=Callable[..., Any])


class Registry(dict[str, Thing]):
    """Things of one kind by name; an unknown name raises `UnknownNameError`.

    Parameters
    ----------
    kind : str
        What errors call one of them.
    made_of : Callable[..., Thing] or None, default None
        Makes the thing that is kept from a name and the function or class registered, which is its
        attribute ``function``. None keeps the function or class itself.
    """

    def __init__(self, kind: str, made_of: Callable[..., Thing] | None = None) -> None:
        super().__init__()
        self._kind = kind
        self._made_of = made_of

    def __missing__(self, name: str) -> Thing:
        raise UnknownNameError(self._kind, name, self.names())

    def names(self) -> list[str]:
        """Registered names, sorted."""
        return sorted(self)

    def source(self, name: str) -> Any:
        """The function or class that was registered by a name; None where there is none."""
        thing = self.get(name)
        return thing if self._made_of is None else getattr(thing, "function", None)

    def register(self, name: str, **settings: Any) -> Callable[[Function], Function]:
        """Decorator: keep a function or class by a name; see `add`."""

        def register(function: Function) -> Function:
            self.add(name, function, **settings)
            return function

        return register

    def add(self, name: str, function: Any, **settings: Any) -> None:
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
        known = self.source(name)
        if known is not None:
            module = main_name(function.__module__)
            replaced = main_name(known.__module__) == module and not _stands(known)
            if _origin(known) != _origin(function) and not replaced:
                places = f"{_origin(known)} and {_origin(function)}"
                raise ValueError(f"{self._kind} {name!r} is registered twice, by {places}")
            told = f"{self._kind} {name!r} is replaced: {_origin(function)} is defined anew"
            # Above this: the decorator, and the line it decorates.
            warnings.warn(told, stacklevel=3)
        made_of = self._made_of
        self[name] = function if made_of is None else made_of(name, function, **settings)
        remember(function.__module__)

    def find(self, given: Any) -> Thing:
        """The thing meant by a registered name, ``FILE.py:NAME``, ``FILE.py``, or itself.

        ``NAME`` is a name that the file registers, or what it defines; without one the file has to
        register just one of the kind.

        Raises
        ------
        UnknownNameError
            No such name.
        InvalidValueError, InvalidTypeError
            No such file, nothing of the kind in it, or neither a text nor of the kind.
        """
        if isinstance(given, str):
            return self._named(given)
        for name, thing in self.items():
            if given is thing or given is self.source(name):
                return thing
        made_of = self._made_of
        if isinstance(made_of, type) and isinstance(given, made_of):
            return cast(Thing, given)
        if made_of is None or not callable(given):
            reason = f"is neither a {self._kind} nor the name of one"
            raise InvalidTypeError(None, self._kind, given, reason)
        return made_of(getattr(given, "__name__", type(given).__name__), given)

    def all_of(self, given: Any) -> tuple[Thing, ...]:
        """`find` of one or several; none for None."""
        if given is None:
            return ()
        several = not isinstance(given, str) and isinstance(given, Iterable)
        return tuple(map(self.find, given if several else [given]))

    def _named(self, text: str) -> Thing:
        if text in self:
            return self[text]
        where, _, name = text.rpartition(":")
        # The colon of "C:\\bounds.py" is a drive's.
        if text.endswith(SUFFIX) or (not where and is_file_name(text)):
            where, name = text, ""
        if not where:
            raise UnknownNameError(self._kind, text, [*self.names(), "FILE.py:NAME"])
        module = import_source(where, field=self._kind)
        own = self._registered_by(module)
        if name in own or (not name and len(own) == 1):
            return self[name or own[0]]
        choice = f"it registers no {self._kind}"
        if own:
            choice = f"write {' or '.join(f':{each}' for each in own)}"
        if not name:
            raise InvalidValueError(None, self._kind, text, f"is a file: {choice}")
        value = attribute_of(module, name)
        if value is None or isinstance(value, str):
            is_what = "is a text" if value else "is not"
            raise InvalidValueError(None, self._kind, text, f"{is_what} in {where}: {choice}")
        return self.find(value)

    def _registered_by(self, module: ModuleType) -> list[str]:
        return [name for name in self if self.source(name).__module__ == module.__name__]


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
