"""Which code a result was computed with: this distribution's, and the user's own.

A stored result must not outlive the code that gave it, so its key holds digests of both. The user's
own code is what registers a policy or a generator, with every module it imports, directly or not,
that is neither this distribution nor Python's library nor installed; the package that registers
counts even where it is installed. Imports are found where they are written, inside functions too.
What a file does not show is not seen: modules named at run time, data files, the environment,
attributes set from outside.

A module's file is read when it is first asked for, which `remember` does at the registration, and
again when the module was loaded anew: what runs is what was imported then, not what an editor has
saved since. What was defined in no file, as in a notebook, is told by its compiled code and by the
values it refers to.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dis
import functools
import hashlib
import importlib.util
import io
import pickle
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

from .errors import InvalidValueError

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("instances", "hindsight", "online")
MAIN = "__main__"
FILE_MARK = "@"
"""Begins what sets apart the names of modules that `user_modules` loads from files of one stem."""

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
    """SHA-256 (hex) of the user's own code behind a class, function or other callable, or None.

    Parameters
    ----------
    thing : Any
        The class, function or callable.
    owner : str
        What an error calls it, such as ``"policy 'mine'"``.

    Raises
    ------
    InvalidValueError
        It was defined in no file and refers to a value that has no stored form; or in a file that
        was edited between its import and the first question about it.
    """
    stream = io.BytesIO()
    content = _Content(stream)
    try:
        content.dump(thing)
    except _UNTOLD as error:
        reason = f"stands in no file, and not all it refers to can be told ({error}): use a file"
        raise InvalidValueError(owner, "definition", thing, reason) from None
    try:
        files = _files(content.modules, _top(thing.__module__))
    except (OSError, AttributeError) as error:
        raise InvalidValueError(owner, "source", thing, f"cannot be read: {error}") from None
    for name, file in files.items():
        if file.edited:
            path = getattr(file.module, "__file__", name)
            reason = "was edited after it was imported: import it anew, or start anew"
            raise InvalidValueError(owner, "source", path, reason)
    by_name = isinstance(thing, (FunctionType, type)) and _stands_in_file(thing)
    if by_name and not files:
        return None
    digest = hashlib.sha256(b"" if by_name else stream.getvalue())
    for name in sorted(files):
        digest.update(f"{name.partition(FILE_MARK)[0]}\0{files[name].digest}\0".encode())
    return digest.hexdigest()


def user_modules(thing: Any) -> list[str]:
    """Names of the user's modules behind a class, function or object, installed ones left out."""
    content = _Content(io.BytesIO())
    with contextlib.suppress(*_UNTOLD):
        content.dump(thing)
    with contextlib.suppress(OSError, AttributeError):
        return [name for name in _files(content.modules, "") if name != MAIN]
    return []


def remember(thing: Any) -> None:
    """Read the files behind a class or function now, while they are what is being imported."""
    with contextlib.suppress(OSError, AttributeError):
        _files([thing.__module__], _top(thing.__module__))


@dataclass(frozen=True)
class _File:
    """A module's file as it was read; ``module`` and ``spec`` change when it is loaded anew.

    ``edited`` says that it was too late: something else had been imported.
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
            name = ".".join(parts[:length])
            name = MAIN if name == "__mp_main__" else name
            if name in found:
                continue
            module = sys.modules.get(name)
            spec = found_spec(name) if module is None else getattr(module, "__spec__", None)
            path = getattr(module, "__file__", None) or (spec.origin if spec else None)
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


def is_users_file(path: Path) -> bool:
    """Whether a file is neither this distribution's nor Python's nor installed."""
    return _is_users(path.resolve(), "", MAIN)


def _is_users(path: Path, name: str, own: str) -> bool:
    if any(path.is_relative_to(ROOT / package) for package in PACKAGES):
        return False
    if not _INSTALLED.isdisjoint(path.parts):
        return _top(name) == own
    return not any(path.is_relative_to(folder) for folder in _LIBRARY)


def found_spec(name: str) -> Any:
    """Where a module that is not loaded would come from; nothing is imported to find out."""
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            return importlib.util.find_spec(name)
        module = sys.modules.get(parent)
        if module is not None:
            folders = getattr(module, "__path__", None)
        else:
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
    """Whether a module defines a function that is not in the text its file has now."""
    # What others load may be compiled from another text than the file's.
    if type(getattr(module, "__loader__", None)) is not SourceFileLoader:
        return False
    try:
        text = compile(content, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return True
    written: dict[str, list[Any]] = {}
    for code in _nested(text):
        written.setdefault(code.co_qualname, []).append(_comparable(code))
    defined: list[Any] = list(vars(module).values())
    for one in vars(module).values():
        if isinstance(one, type) and one.__module__ == module.__name__:
            defined += vars(one).values()
    codes = [
        one.__code__
        for one in defined
        if isinstance(one, FunctionType) and one.__module__ == module.__name__
    ]
    # What is not written any more is left over in a module that was reloaded.
    return any(
        _comparable(code) not in written.get(code.co_qualname, [_comparable(code)])
        for code in codes
        if Path(code.co_filename).name == Path(str(module.__file__)).name
    )


def _comparable(code: CodeType) -> Any:
    """Equal for equal definitions, wherever in a file they stand."""
    constants = [
        _comparable(one)
        if isinstance(one, CodeType)
        else sorted(map(repr, one))
        if isinstance(one, frozenset)
        else repr(one)
        for one in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, constants


def _nested(code: CodeType) -> Iterator[CodeType]:
    """It, and what is defined inside it."""
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
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - (node.level - 1)]
                base = ".".join([*above, *([base] if base else [])])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _top(name: str) -> str:
    return name.partition(".")[0]


_UNTOLD = (pickle.PicklingError, TypeError, ValueError, AttributeError, RecursionError)
"""What pickle raises of what has no stored form."""

_WRAPPERS = (staticmethod, classmethod, functools._lru_cache_wrapper)
_NOT_CONTENT = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "_abc_impl"),
        *("__firstlineno__", "__static_attributes__"),
    }
)


class _Content(pickle.Pickler):
    """Writes what a definition consists of, as far as it stands in no file.

    Attributes
    ----------
    modules : set[str]
        Those it refers to.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=4)
        # Without a memory for what was written before: it would tell equal from identical values.
        self.fast = True
        self.modules: set[str] = set()
        self._seen: dict[int, int] = {}

    def persistent_id(self, thing: Any) -> Any:
        """Content where pickle would write a name or refuse; None for plain values."""
        if isinstance(thing, ModuleType):
            self.modules.add(thing.__name__)
            return thing.__name__
        if isinstance(thing, (set, frozenset)):
            return ("set", sorted(map(repr, thing)))
        if isinstance(thing, MappingProxyType):
            return ("mapping", dict(thing))
        if isinstance(thing, property):
            return ("property", thing.fget, thing.fset, thing.fdel)
        if isinstance(thing, functools.cached_property):
            return ("property", thing.func)
        if isinstance(thing, _WRAPPERS):
            return (type(thing).__name__, thing.__wrapped__)
        if isinstance(thing, CodeType):
            return _code(thing)
        if not isinstance(thing, (FunctionType, type)):
            return None
        if _stands_in_file(thing):
            self.modules.add(thing.__module__)
            for base in thing.__mro__ if isinstance(thing, type) else ():
                self.persistent_id(base) if base is not thing else None
            return (thing.__module__, thing.__qualname__)
        if id(thing) in self._seen:
            return ("again", self._seen[id(thing)])
        self._seen[id(thing)] = len(self._seen)
        return self._class(thing) if isinstance(thing, type) else self._function(thing)

    def _class(self, thing: type) -> tuple[Any, ...]:
        attributes = [
            (name, value)
            for name, value in sorted(vars(thing).items())
            if name not in _NOT_CONTENT
            and not isinstance(value, (GetSetDescriptorType, MemberDescriptorType))
        ]
        return ("class", thing.__qualname__, thing.__bases__, attributes)

    def _function(self, thing: FunctionType) -> tuple[Any, ...]:
        names: set[str] = set()
        for step in _instructions(thing.__code__):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                self.modules.add(step.argval)
        known = thing.__globals__
        used = [(name, known[name]) for name in sorted(names & known.keys())]
        cells = []
        for cell in thing.__closure__ or ():
            try:
                cells.append(cell.cell_contents)
            except ValueError:
                cells.append("empty")
        kept = (thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells, used)
        return ("function", thing.__qualname__, *kept)


def _code(code: CodeType) -> tuple[Any, ...]:
    """All that decides what it does; file and line numbers do not."""
    return (
        *("code", code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_flags),
        *(code.co_freevars, code.co_cellvars, code.co_exceptiontable),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
    )


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Of a function and of all that is defined inside it."""
    for one in _nested(code):
        yield from dis.get_instructions(one)


def _stands_in_file(thing: FunctionType | type) -> bool:
    if thing.__module__ == "builtins":
        # What `exec` defines in a namespace without a name says so too.
        return thing in vars(builtins).values()
    module = sys.modules.get(thing.__module__)
    spec = getattr(module, "__spec__", None)
    file = getattr(module, "__file__", None)
    if file is None:
        return getattr(spec, "origin", "") in _NO_FILE
    if not is_users_file(Path(file)):
        return True
    # What a call made, or a file that was loaded anew since, is not what now stands there.
    found: Any = module
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing or getattr(found, "__wrapped__", None) is thing
