"""Digests of the code that computed a result: this distribution's, and the user's own.

A stored result must not outlive the code that gave it, so its key holds digests of both. The user's
own code is the file that defines a policy or a generator, with every module it imports, directly or
not, that is neither this distribution nor Python's library nor installed; the package that defines
it counts even where it is installed. Imports are found where they are written, inside functions
too. What a file does not show is not seen: modules named at run time, data files, the environment,
attributes set from outside.

A module's file is read when it is first asked for, which `remember` does at the registration, and
again when the module was loaded anew: what runs is what was imported then, not what an editor has
saved since. What stands in no file, as in a notebook, has no digest that ever comes again: its
results are computed anew in every run.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import io
import pickle
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from .errors import InvalidValueError

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("instances", "hindsight", "online")
MAIN = "__main__"
FILE_MARK = "@"
"""Begins what sets apart the names of modules that `user_modules` loads from files of one stem."""

UNSTORED = "unstored-"
"""Begins the digest of what stands in no file; no two of them are equal."""

_LIBRARY = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib") if name
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_NO_FILE = frozenset({"built-in", "frozen"})


def package_sources(*packages: str) -> str:
    """SHA-256 (hex) of the Python files of some of the three packages, as first asked for.

    A version does not tell them apart: a checkout is edited, and installed from, under one version.
    """
    return hashlib.sha256("".join(map(_package_digest, packages)).encode()).hexdigest()


@cache
def _package_digest(package: str) -> str:
    digest = hashlib.sha256()
    for path in sorted((ROOT / package).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def user_sources(thing: Any, owner: str) -> str | None:
    """Digest of the files of the user's code behind a class, function or object, as imported.

    Parameters
    ----------
    thing : Any
        The class, function or object. An object counts with what it holds, as pickled.
    owner : str
        What an error calls it, such as ``"policy 'mine'"``.

    Returns
    -------
    str or None
        SHA-256 (hex); None where all of it is this distribution's, Python's or installed;
        `UNSTORED` and a text that never comes again where a part stands in no file.

    Raises
    ------
    InvalidValueError
        A file was edited between its import and the first question about it, or cannot be read.
    """
    stream = io.BytesIO()
    parts = _Parts(stream)
    try:
        parts.dump(thing)
    except Exception:  # noqa: BLE001 (whatever the user's objects raise when they are pickled)
        return f"{UNSTORED}{uuid.uuid4().hex}"
    try:
        files = _files(parts.modules, thing.__module__.partition(".")[0])
    except (OSError, AttributeError) as error:
        raise InvalidValueError(owner, "source", thing, f"cannot be read: {error}") from None
    for name, file in files.items():
        if file.edited:
            path = getattr(file.module, "__file__", name)
            reason = "was edited after it was imported: import it anew, or start anew"
            raise InvalidValueError(owner, "source", path, reason)
    if not files and isinstance(thing, (type, FunctionType)):
        return None
    digest = hashlib.sha256(stream.getvalue())
    for name in sorted(files):
        digest.update(f"{name.partition(FILE_MARK)[0]}\0{files[name].digest}\0".encode())
    return digest.hexdigest()


def remember(module: str) -> None:
    """Read the files behind a module now, while they are what is being imported."""
    with contextlib.suppress(OSError, AttributeError):
        _files([module], module.partition(".")[0])


def main_name(module: str) -> str:
    """`MAIN` for what is the main module to a script and another one to processes it starts."""
    return MAIN if module == "__mp_main__" else module


class _Parts(pickle.Pickler):
    """Pickles an object, with classes and functions by name, and collects their modules.

    Raises `pickle.PicklingError` at one that stands in no file.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=4)
        self.modules: set[str] = set()

    def persistent_id(self, thing: Any) -> Any:
        """Module and qualified name of a class or function; None for the rest."""
        if not isinstance(thing, (type, FunctionType)):
            return None
        if not _stands_in_file(thing):
            raise pickle.PicklingError(f"{thing!r} stands in no file")
        self.modules.add(thing.__module__)
        return main_name(thing.__module__).partition(FILE_MARK)[0], thing.__qualname__


def _stands_in_file(thing: FunctionType | type) -> bool:
    module = sys.modules.get(thing.__module__)
    file = getattr(module, "__file__", None)
    if file is None and getattr(getattr(module, "__spec__", None), "origin", "") not in _NO_FILE:
        return False
    if file is not None and not is_users_file(file):
        return True
    # What a call made, what `exec` defined, or a file that was loaded anew since, is not what now
    # has the name.
    found: Any = module
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing or getattr(found, "__wrapped__", None) is thing


class _File(NamedTuple):
    """A module's file as it was read; ``module`` and ``spec`` change when it is loaded anew.

    ``edited`` says that it was read too late: something else had been imported.
    """

    module: ModuleType | None
    spec: Any
    digest: str
    imports: frozenset[str]
    edited: bool


_read: dict[str, _File] = {}


def _files(modules: Iterable[str], own: str) -> dict[str, _File]:
    """The user's modules among these and all that they import, by name."""
    found: dict[str, _File] = {}
    waiting = list(modules)
    while waiting:
        parts = waiting.pop().split(".")
        # Importing a.b.c runs a and a.b before.
        for length in range(1, len(parts) + 1):
            name = main_name(".".join(parts[:length]))
            if name in found:
                continue
            module = sys.modules.get(name)
            spec = found_spec(name) if module is None else getattr(module, "__spec__", None)
            path = getattr(module, "__file__", None) or getattr(spec, "origin", None)
            if path is None and getattr(spec, "submodule_search_locations", None):
                continue  # a namespace package, which has no file
            if path is None or path in _NO_FILE or not _is_users(Path(path).resolve(), name, own):
                break
            known = _read.get(name)
            if known is None or known.module is not module or known.spec is not spec:
                known = _read[name] = _look(name, Path(path), module, spec)
            found[name] = known
            waiting.extend(known.imports)
    return found


def loaded_modules() -> list[ModuleType]:
    """The user's modules that are loaded, each by its own name, but for the main one."""
    found = []
    for name, module in [*sys.modules.items()]:
        if isinstance(module, ModuleType) and module.__name__ == name and main_name(name) != MAIN:
            file = vars(module).get("__file__")
            if file and is_users_file(file):
                found.append(module)
    return found


@cache
def is_users_file(path: str) -> bool:
    """Tell whether a file belongs neither to this distribution nor to Python nor to a package."""
    return _is_users(Path(path).resolve(), "", MAIN)


def _is_users(path: Path, name: str, own: str) -> bool:
    if any(path.is_relative_to(ROOT / package) for package in PACKAGES):
        return False
    if not _INSTALLED.isdisjoint(path.parts):
        return name.partition(".")[0] == own
    return not any(path.is_relative_to(folder) for folder in _LIBRARY)


def found_spec(name: str) -> Any:
    """Find where a module that is not loaded would come from, without importing anything."""
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            return importlib.util.find_spec(name)
        folders = getattr(sys.modules.get(parent), "__path__", None)
        if folders is None:
            folders = getattr(found_spec(parent), "submodule_search_locations", None)
        return None if folders is None else PathFinder.find_spec(name, folders)
    except (ImportError, ValueError):
        return None


def _look(name: str, path: Path, module: ModuleType | None, spec: Any) -> _File:
    # Inside an archive there is no path to open.
    content = path.read_bytes() if path.exists() else spec.loader.get_data(str(path))
    package = getattr(module, "__package__", None)
    if package is None:
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
    imports = frozenset(imported_names(content, package)) if path.suffix == ".py" else frozenset()
    if package and module is not None:
        imports |= {package}
    edited = module is not None and _was_edited(module, content)
    return _File(module, spec, hashlib.sha256(content).hexdigest(), imports, edited)


def _was_edited(module: ModuleType, content: bytes) -> bool:
    """Tell whether a module's functions differ from those in its file now."""
    # What others load may be compiled from another text than the file's.
    if type(getattr(module, "__loader__", None)) is not SourceFileLoader:
        return False
    try:
        written = set(_nested(compile(content, "", "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError):
        return True
    owners = [module, *(one for one in vars(module).values() if isinstance(one, type))]
    defined = [one for owner in owners for one in vars(owner).values()]
    codes = {
        one.__code__
        for one in defined
        if isinstance(one, FunctionType) and one.__module__ == module.__name__
    }
    names = {code.co_qualname for code in written}
    # What is not written any more is left over in a module that was reloaded.
    return any(
        code.co_qualname in names and code not in written
        for code in codes
        if Path(code.co_filename).name == Path(str(module.__file__)).name
    )


def _nested(code: CodeType) -> Iterator[CodeType]:
    """Yield the code object, and all code defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def imported_names(content: bytes, package: str) -> Iterator[str]:
    """Names of the modules that a file imports, and of what may be modules."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return  # no Python: it cannot be imported either
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            written = "." * node.level + (node.module or "")
            with contextlib.suppress(ImportError):  # beyond the outermost package
                base = importlib.util.resolve_name(written, package)
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)
