"""Import modules of the user, which command lines and stored runs name by module or by file."""

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
"""Modules loaded from files have names of this form: stem of the file, ``@``, hash of its path."""

_files: dict[Path, tuple[bytes, ModuleType]] = {}
"""Content and module of each file that `import_source` loaded, by absolute path."""

_imported: dict[str, None] = {}
"""Ordered set of the modules, and absolute paths of the files, that `import_sources` imported."""

Value = TypeVar("Value")


def import_sources(names: Iterable[str], folder: str | os.PathLike[str] = ".") -> None:
    """Import the user's modules and files, such as those that register policies or generators.

    Parameters
    ----------
    names : Iterable[str]
        Modules or files: ``my_rules``, ``package.module``, ``my_rules.py`` or
        ``path/to/my_rules.py``.
    folder : str or os.PathLike, default "."
        Folder to which paths are relative; modules are searched for in it after ``sys.path``.

    Raises
    ------
    InvalidValueError
        A module or file does not exist or cannot be imported; the message has the failing line.
    """
    for name in names:
        import_source(name, folder)
        _imported[str(_path(name, folder)) if is_file_name(name) else name] = None


def import_source(
    name: str, folder: str | os.PathLike[str] = ".", field: str = "import"
) -> ModuleType:
    """Import one module or file of the user, as `import_sources` does, and return the module.

    ``field`` is the name of the argument in errors. A file is imported again only if it has been
    edited since the last import.

    Raises
    ------
    InvalidValueError
        The module or file does not exist or cannot be imported.
    """
    if is_file_name(name):
        return _from_file(_path(name, folder), name, field)
    _search(Path(folder).absolute())
    importlib.invalidate_caches()
    return described(lambda: importlib.import_module(name), name, field)


def imported_sources() -> list[str]:
    """Return the names of all modules and files that `import_sources` imported.

    Other processes can import them by these names.
    """
    return list(_imported)


def file_of(thing: Callable[..., object]) -> str | None:
    """Return the file from which `import_source` loaded a function or class.

    The path is relative if possible. Return None if the function or class is from a module.
    """
    file = getattr(sys.modules.get(thing.__module__), "__file__", None)
    if FILE_MARK not in thing.__module__ or file is None:
        return None
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def is_file_name(text: str) -> bool:
    """Return whether a text is the name of a file (it has ``/`` or ends with .py), not a module."""
    return text.endswith(SUFFIX) or "/" in text


def attribute_of(thing: Any, name: str) -> Any:
    """Return the attribute of ``thing`` with a dotted name, such as ``a.b``; None if missing."""
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing


def described(
    action: Callable[[], Value],
    named: str,
    field: str,
    passing: tuple[type[BaseException], ...] = (),
) -> Value:
    """Call ``action``, which runs the user's code, and replace its exceptions by a one-line error.

    Exceptions of the types in ``passing`` are not replaced. ``named`` is the user's module, file
    or function, and ``field`` the name of the argument in the error.

    Raises
    ------
    InvalidValueError
        The code raised an exception; the message has its type, its text, and the user's line.
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
    known, loaded = _files.pop(path, (None, None))
    if loaded is not None and known == content:
        _files[path] = content, loaded
        return loaded
    # The name of the module has a "@", so it differs from every name that ``import`` can use.
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    module = ModuleType(f"{path.stem.replace('.', '_')}{FILE_MARK}{mark}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    _search(path.parent)

    def run() -> None:
        # Python's own loader is not used. It caches bytecode by the time of the file in seconds, so
        # it would miss the second of two edits within a second.
        exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))

    try:
        described(run, name, field)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    _files[path] = content, module
    return module


def _search(folder: Path) -> None:
    """Append a folder to ``sys.path``, so that modules are searched for in it last."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def users_line(error: BaseException) -> str:
    """Return the innermost line of the user's code in an error's traceback: `` (file.py:12)``.

    Return an empty string if there is no such line. The text has no folder of the file, because it
    is also stored in records and shown on pages.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.exists(frame.filename) and is_users_file(frame.filename):
            return f" ({Path(frame.filename).name}:{frame.lineno})"
    return ""


def main_name(module: str) -> str:
    """Return the name of a module. For the main module it is `MAIN`, also in worker processes.

    In processes that a script starts, Python calls the module of the script ``__mp_main__``.
    """
    return MAIN if module == "__mp_main__" else module


def loaded_modules() -> list[ModuleType]:
    """Return all loaded modules of the user, except the main module; each module once."""
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
    """Return whether a file is the user's own.

    It is not if it belongs to this package, to Python's standard library or to an installed
    package.
    """
    path = Path(file).resolve()
    library = (Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    ours = (*(ROOT / package for package in PACKAGES), *library)
    installed = {"site-packages", "dist-packages"}.intersection(path.parts)
    return bool(file) and not installed and not any(map(path.is_relative_to, ours))
