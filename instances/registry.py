"""Named instance generators: one registry, one way to call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .errors import InvalidValueError
from .instance import Instance
from .validation import as_integer

GeneratorFunction = TypeVar("GeneratorFunction", bound=Callable[..., Any])

_GENERATORS: dict[str, Callable[..., Any]] = {}


class UnknownNameError(ValueError):
    """A name that is not registered; the message lists those that are."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = known
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(known)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.name, self.known)


def register_generator(name: str) -> Callable[[GeneratorFunction], GeneratorFunction]:
    """Decorator: make ``function(rng, *, ...)`` available as ``generate(name, ...)``."""

    def register(function: GeneratorFunction) -> GeneratorFunction:
        if name in _GENERATORS:
            raise ValueError(f"generator {name!r} is registered twice")
        _GENERATORS[name] = function
        return function

    return register


def generator_names() -> list[str]:
    """The registered generator names, sorted."""
    return sorted(_GENERATORS)


def generator_parameters(name: str) -> dict[str, inspect.Parameter]:
    """The keyword parameters that ``generate(name, ...)`` accepts, with their defaults.

    Raises
    ------
    UnknownNameError: no such generator.
    """
    parameters = inspect.signature(_lookup(name)).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def generate(name: str, seed: int = 0, **parameters: Any) -> Any:
    """An `Instance`, or for adaptive adversaries an arrival source, drawn with ``seed``.

    The instance's metadata records generator, seed and parameters, and its name tells them.

    Raises
    ------
    UnknownNameError: no such generator.
    InvalidValueError, InvalidTypeError: a parameter the generator does not have, or a bad value.
    """
    function = _lookup(name)
    seed = as_integer(seed, None, "seed", minimum=0)
    known = generator_parameters(name)
    for key, value in parameters.items():
        if key not in known:
            raise InvalidValueError(
                f"generator {name!r}",
                key,
                value,
                f"is not one of its parameters ({', '.join(known) or 'it has none'})",
            )
    drawn = function(np.random.default_rng(seed), **parameters)
    if not isinstance(drawn, Instance):
        return drawn
    settings = "".join(f",{key}={value}" for key, value in sorted(parameters.items()))
    plain = {
        key: value.item() if isinstance(value, np.generic) else value
        for key, value in parameters.items()
    }
    origin = {"generator": name, "seed": seed, "parameters": plain}
    return Instance(
        drawn.requests,
        drawn.memory_limit,
        drawn.name or f"{name}[seed={seed}{settings}]",
        {**drawn.metadata, "origin": origin},
    )


def _lookup(name: str) -> Callable[..., Any]:
    if name not in _GENERATORS:
        raise UnknownNameError("generator", name, generator_names())
    return _GENERATORS[name]
