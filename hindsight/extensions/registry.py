"""What users bring by name, or as it stands in a file of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Generic, TypeVar

from instances import InvalidTypeError, InvalidValueError, UnknownNameError
from instances.generators.registry import check_name
from instances.sources import remember
from instances.user_modules import import_source, is_file_name
from instances.validation import as_name

Thing = TypeVar("Thing")


class Registry(Generic[Thing]):
    """Things of one kind, each made of a function or class of the user's.

    Parameters
    ----------
    kind : str
        What errors call them.
    made_of : Callable[[str, Any], Thing or None]
        Makes one of a name and of what is neither registered nor a text; None where that is none.
    taken : Iterable[str], optional
        Names that are not to be given.
    """

    def __init__(
        self, kind: str, made_of: Callable[[str, Any], Thing | None], taken: Iterable[str] = ()
    ) -> None:
        self._kind = kind
        self._made_of = made_of
        self._taken = frozenset(taken)
        self._things: dict[str, tuple[Callable[..., Any], Thing]] = {}

    def add(self, name: str, source: Callable[..., Any], thing: Thing) -> None:
        """Register what was made of ``source``.

        Raises
        ------
        ValueError
            Something else has the name.
        """
        name = as_name(name, None, f"name of a {self._kind}")
        if name in self._taken:
            raise ValueError(f"{self._kind} {name!r} is one of this package's")
        known, _ = self._things.get(name, (None, None))
        check_name(self._kind, name, known, source)
        self._things[name] = source, thing
        remember(source)

    def names(self) -> list[str]:
        """Those registered, sorted."""
        return sorted(self._things)

    def source(self, name: str) -> Callable[..., Any] | None:
        """The function or class that is registered by a name; None where there is none."""
        return self._things.get(name, (None, None))[0]

    def find(self, given: Any) -> Thing:
        """What is meant: a registered name, ``FILE.py:NAME``, ``FILE.py``, or the thing itself.

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
        for source, thing in self._things.values():
            if source is given:
                return thing
        title = getattr(given, "__name__", type(given).__name__)
        made = self._made_of(title, given)
        if made is None:
            raise InvalidTypeError(None, self._kind, given, f"is no {self._kind}")
        return made

    def all_of(self, given: Any) -> tuple[Thing, ...]:
        """`find` of one or several; none for None."""
        if given is None:
            return ()
        several = not isinstance(given, str) and isinstance(given, Iterable)
        return tuple(map(self.find, given if several else [given]))

    def _named(self, text: str) -> Thing:
        if text in self._things:
            return self._things[text][1]
        where, _, name = text.rpartition(":")
        if not where and is_file_name(text):
            where, name = text, ""
        if not where:
            raise UnknownNameError(self._kind, text, [*self.names(), "FILE.py:NAME"])
        module = import_source(where, field=self._kind)
        own = self._registered_by(module)
        if not name and len(own) == 1:
            return own[0][1]
        for registered, thing in own:
            if registered == name:
                return thing
        value: Any = module
        for part in name.split("."):
            value = getattr(value, part, None)
        choice = " or ".join(f":{registered}" for registered, _ in own)
        choice = f"write {choice}" if choice else f"it registers no {self._kind}"
        if not name:
            raise InvalidValueError(None, self._kind, text, f"is a file: {choice}")
        if value is None or isinstance(value, str):
            is_what = "is a text" if value else "is not"
            raise InvalidValueError(None, self._kind, text, f"{is_what} in {where}: {choice}")
        return self.find(value)

    def _registered_by(self, module: ModuleType) -> list[tuple[str, Thing]]:
        return [
            (name, thing)
            for name, (source, thing) in self._things.items()
            if source.__module__ == module.__name__
        ]
