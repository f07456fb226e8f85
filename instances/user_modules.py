"""The user's own modules, by name or by file, as command lines and stored runs name them."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from .errors import InvalidValueError, printable

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("instances", "hindsight", "online")
MAIN = "__main__"
SUFFIX = ".py"

FILE_MARK = "@"
"""Separates the stem of a file from a hash of its path in the name of a module loaded from it."""

_CONTENT = "__content__"
"""Attribute of a module loaded from a file: the text that was run."""

_imported: dict[str, None] = {}
"""Absolute names of all that `import_sources` was asked for, in order."""

Value = TypeVar("Value")


def import_sources(names: Iterable[str], folder: str | os.PathLike[str] = ".") -> None:
    """Import modules and files, such as those that register policies or generators.

    Parameters
    ----------
    names : Iterable[str]
        ``my_rules``, ``package.module``, ``my_rules.py`` or ``path/to/my_rules.py``.
    folder : str or os.PathLike, default "."
        Where paths begin, and where modules are looked for too.

    Raises
    ------
    InvalidValueError
        No such module or file, or it cannot be imported; the message names the line.
    """
    for name in names:
        import_source(name, folder)
        _imported[str(_path(name, folder)) if is_file_name(name) else name] = None


def import_source(
    name: str, folder: str | os.PathLike[str] = ".", field: str = "import"
) -> ModuleType:
    """Import one of `import_sources`; an error names it as ``field``.

    A file is imported once, and again where it has been edited since.

    Raises
    ------
    InvalidValueError
        As `import_sources`.
    """
    if is_file_name(name):
        return _from_file(_path(name, folder), name, field)
    _search(Path(folder).absolute())
    importlib.invalidate_caches()
    return described(lambda: importlib.import_module(name), name, field)


def imported_sources() -> list[str]:
    """Return what `import_sources` imported in this process, to import it in another."""
    return list(_imported)


def file_of(thing: Callable[..., object]) -> str | None:
    """The file that a function or class was loaded from by `import_source`; else None."""
    file = getattr(sys.modules.get(thing.__module__), "__file__", None)
    if FILE_MARK not in thing.__module__ or file is None:
        return None
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def is_file_name(text: str) -> bool:
    """Return whether a text names a file rather than a module."""
    return text.endswith(SUFFIX) or "/" in text


def attribute_of(thing: Any, name: str) -> Any:
    """The attribute that a dotted name leads to; None where there is none."""
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing


def described(
    action: Callable[[], Value],
    named: str,
    field: str,
    passing: tuple[type[BaseException], ...] = (),
) -> Value:
    """Run what runs the user's code; what it raises becomes an error of one line.

    Errors of the kinds ``passing`` are raised as they are.

    Raises
    ------
    InvalidValueError
        With the kind and message of what was raised, and the user's file and line.
    """
    try:
        return action()
    except passing:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a user's file raises)
        reason = f"fails: {type(error).__name__}: {error}{users_line(error)}"
    raise InvalidValueError(None, field, named, printable(" ".join(reason.split()))) from None


def _path(name: str, folder: str | os.PathLike[str]) -> Path:
    return Path(os.path.normpath(Path(folder).absolute() / Path(name).expanduser()))


def _from_file(path: Path, name: str, field: str) -> ModuleType:
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise InvalidValueError(None, field, name, reason) from None
    known = _loaded(path)
    if known is not None and getattr(known, _CONTENT, content) == content:
        return known
    # Unlike any name that Python imports.
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    module = ModuleType(f"{path.stem.replace('.', '_')}{FILE_MARK}{mark}")
    module.__file__ = str(path)
    setattr(module, _CONTENT, content)
    sys.modules[module.__name__] = module
    _search(path.parent)

    def run() -> None:
        # Not by a loader: its bytecode takes two edits within a second for one.
        exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))

    try:
        described(run, name, field)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _loaded(path: Path) -> ModuleType | None:
    """The module that a file is already, under whichever name."""
    real = os.path.realpath(path)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(path.name) and os.path.realpath(file) == real:
            return module
    return None


def _search(folder: Path) -> None:
    """Find modules there too, after everywhere else."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def users_line(error: BaseException) -> str:
    """The last line of the user's own that an error came through, in brackets; or nothing.

    The file has no folder: pages and records show the line.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.exists(frame.filename) and is_users_file(frame.filename):
            return f" ({Path(frame.filename).name}:{frame.lineno})"
    return ""


def main_name(module: str) -> str:
    """Return `MAIN` for the main module, also in the processes that a script starts."""
    return MAIN if module == "__mp_main__" else module


def loaded_modules() -> list[ModuleType]:
    """Return the user's loaded modules, each by its own name, without the main one."""
    return [
        module
        for name, module in [*sys.modules.items()]
        if isinstance(module, ModuleType)
        and module.__name__ == name
        and main_name(name) != MAIN
        and is_users_file(vars(module).get("__file__") or "")
    ]


@cache
def is_users_file(file: str) -> bool:
    """Return whether a file belongs neither to this distribution nor to Python nor to a package."""
    path = Path(file).resolve()
    library = (Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    ours = (*(ROOT / package for package in PACKAGES), *library)
    installed = {"site-packages", "dist-packages"}.intersection(path.parts)
    return bool(file) and not installed and not any(map(path.is_relative_to, ours))
