"""Named instance generators: one registry, one way to call them."""

from __future__ import annotations

import difflib
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from instances.errors import InvalidValueError, MissingParameterError
from instances.problem.instance import Instance
from instances.problem.workload import Workload
from instances.sources import FILE_MARK, MAIN, remember, user_sources
from instances.validation import as_integer

GeneratorFunction = TypeVar("GeneratorFunction", bound=Callable[..., Any])

_GENERATORS: dict[str, Callable[..., Any]] = {}


SYNTHETIC = "synthetic"
"""Metadata key of instances that stand in for data: what is imitated. Their names say so too."""


MOST_LISTED = 40
"""Known names that the error of an unknown one lists."""


class UnknownNameError(ValueError):
    """A name that is not registered; the message lists those that are and names the nearest."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = known
        lowered = {one.lower(): one for one in known}
        near = difflib.get_close_matches(str(name).lower(), lowered, n=2, cutoff=0.65)
        meant = " or ".join(repr(lowered[one]) for one in near)
        more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
        listed = f"{', '.join(known[:MOST_LISTED])}{more}"
        told = f"; known: {listed}"
        if near:
            told = f"; did you mean {meant}?{'' if more else f' Known: {listed}'}"
        super().__init__(f"unknown {kind} {name!r}{told}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.name, self.known)


def register_generator(name: str) -> Callable[[GeneratorFunction], GeneratorFunction]:
    """Decorator: make ``function(rng, *, ...)`` available as ``generate(name, ...)``.

    What has the same module and qualified name, such as a notebook's cell run again, takes the
    place of the one before, with a warning; so does what an edited cell or file calls otherwise.

    Raises
    ------
    ValueError
        Another function has the name.
    """

    def register(function: GeneratorFunction) -> GeneratorFunction:
        check_name("generator", name, _GENERATORS.get(name), function)
        _GENERATORS[name] = function
        remember(function)
        return function

    return register


def check_name(
    kind: str, name: str, known: Callable[..., Any] | None, new: Callable[..., Any]
) -> None:
    """Refuse a name that something else has; warn where it is the same thing, defined again.

    Raises
    ------
    ValueError
        Two different things claim the name.
    """
    if known is None:
        return
    replaced = _module(known) == _module(new) and not _stands(known)
    if _origin(known) != _origin(new) and not replaced:
        places = f"{_origin(known)} and {_origin(new)}"
        raise ValueError(f"{kind} {name!r} is registered twice, by {places}")
    # Above this: the decorator, and the line it decorates.
    warnings.warn(f"{kind} {name!r} is replaced: {_origin(new)} is defined anew", stacklevel=3)


def _origin(registered: Callable[..., Any]) -> str:
    name = getattr(registered, "__qualname__", type(registered).__qualname__)
    module = _module(registered)
    if FILE_MARK in module:
        return f"{getattr(sys.modules.get(module), '__file__', module)}:{name}"
    return f"{module}.{name}"


def _module(registered: Callable[..., Any]) -> str:
    # What is __main__ to a script has another name in the processes it starts.
    module: str = registered.__module__
    return MAIN if module == "__mp_main__" else module


def _stands(registered: Callable[..., Any]) -> bool:
    """Whether its module still has it: a notebook keeps what its cells no longer define."""
    module = sys.modules.get(registered.__module__)
    name = getattr(registered, "__qualname__", "")
    return hasattr(module, "__file__") and getattr(module, name, None) is registered


def generator_names() -> list[str]:
    """The registered generator names, sorted."""
    return sorted(_GENERATORS)


def generator_parameters(name: str) -> dict[str, inspect.Parameter]:
    """The keyword parameters that ``generate(name, ...)`` accepts, with their defaults.

    Raises
    ------
    UnknownNameError
        No such generator.
    """
    parameters = inspect.signature(_lookup(name)).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def generator_documentation(name: str) -> str:
    """What a generator draws, its source and its parameters; the first line is a summary.

    Raises
    ------
    UnknownNameError
        No such generator.
    """
    return inspect.getdoc(_lookup(name)) or ""


def generator_sources(name: str) -> str | None:
    """Digest of the user's own code behind a generator, see `sources.user_sources`.

    Raises
    ------
    UnknownNameError
        No such generator.
    InvalidValueError
        The code cannot be told.
    """
    return user_sources(_lookup(name), f"generator {name!r}")


def check_parameters(
    owner: str, known: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Hold keyword arguments against a signature, before the call.

    Raises
    ------
    InvalidValueError
        One that ``owner`` does not have.
    MissingParameterError
        None for a parameter without a default.
    """
    for key, value in given.items():
        if key not in known:
            reason = f"is not one of its parameters ({', '.join(known) or 'it has none'})"
            raise InvalidValueError(owner, key, value, reason)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in given:
            raise MissingParameterError(owner, key)


def generate(name: str, seed: int = 0, **parameters: Any) -> Any:
    """An `Instance`, a `Workload`, or for adaptive adversaries an arrival source, by ``seed``.

    The metadata records generator, seed and parameters, and its name tells them.

    Raises
    ------
    UnknownNameError
        No such generator.
    InvalidValueError, InvalidTypeError
        A parameter the generator does not have, or a bad value.
    MissingParameterError
        A parameter without a default is not given.
    """
    function = _lookup(name)
    seed = as_integer(seed, None, "seed", minimum=0)
    check_parameters(f"generator {name!r}", generator_parameters(name), parameters)
    drawn = function(np.random.Generator(np.random.PCG64(seed)), **parameters)
    if not isinstance(drawn, (Instance, Workload)):
        return drawn
    label = f"{name} (synthetic)" if SYNTHETIC in drawn.metadata else name
    settings = "".join(f",{key}={value}" for key, value in sorted(parameters.items()))
    plain = {key: _plain(value) for key, value in parameters.items()}
    origin = {"generator": name, "seed": seed, "parameters": plain}
    title = drawn.name or f"{label}[seed={seed}{settings}]"
    metadata = {**drawn.metadata, "origin": origin}
    if isinstance(drawn, Workload):
        return drawn.renamed(title, metadata)
    return Instance(
        drawn.requests, drawn.memory_limit, title, metadata, memory_rule=drawn.memory_rule
    )


def _lookup(name: str) -> Callable[..., Any]:
    if name not in _GENERATORS:
        raise UnknownNameError("generator", name, generator_names())
    return _GENERATORS[name]


def _plain(value: Any) -> Any:
    """A parameter as JSON has it, so that it comes back equal."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
