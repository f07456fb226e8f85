"""Registry of instance generators by name, and the function `generate` that calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

import numpy as np

from instances.errors import InvalidTypeError, InvalidValueError
from instances.problem.instance import Instance
from instances.problem.workload import Workload
from instances.registry import Registry
from instances.validation import as_integer, check_ranges, chosen, ranged

GeneratorFunction = TypeVar("GeneratorFunction", bound=Callable[..., Any])

GENERATORS: Registry[Callable[..., Any]] = Registry("generator")


SYNTHETIC = "synthetic"
"""Metadata key of synthetic instances that imitate real data. The value describes these data."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(ranged, chosen))
class Family:
    """Base class of generators: a dataclass whose fields are the parameters of the generator.

    Fields are declared with `ranged` and `chosen`. ``class Mine(Family, name="mine")`` registers
    the generator ``mine``.
    """

    def __init_subclass__(cls, name: str = "") -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        if name:
            GENERATORS.add(name, cls)

    def __post_init__(self) -> None:
        check_ranges(self, owner=None)

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw the instance, workload or arrival source that `generate` returns.

        The fields have been checked before.
        """
        raise NotImplementedError


def register_generator(name: str) -> Callable[[GeneratorFunction], GeneratorFunction]:
    """Return a decorator that makes a function available as ``generate(name, ...)``.

    The function has the form ``function(rng, *, ...)``; a `Family` is possible too. If the same
    module registers the name again, as when a notebook cell is run again, the new function
    replaces the old one with a warning.

    Raises
    ------
    ValueError
        A function of another module has the name.
    """
    return GENERATORS.register(name)


def generator_names() -> list[str]:
    """Return the names of all registered generators, sorted."""
    return GENERATORS.names()


def check_parameters(
    owner: str, known: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Check keyword arguments against the parameters of a function before it is called.

    ``known`` has the parameters of the function, ``given`` the arguments. ``owner`` is the name of
    the function in errors.

    Raises
    ------
    InvalidValueError
        An argument is not one of the parameters.
    InvalidTypeError
        An argument is missing for a parameter without a default.
    """
    for key, value in given.items():
        if key not in known:
            reason = f"is not one of its parameters ({', '.join(known) or 'it has none'})"
            raise InvalidValueError(owner, key, value, reason)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in given:
            raise InvalidTypeError(owner, key, None, "is not given and has no default")


def generate(name: str, seed: int = 0, **parameters: Any) -> Any:
    """Draw an instance or a workload from a named generator. Adversaries return an arrival source.

    The same name, seed and parameters give the same result. They are recorded in the name and the
    metadata of the result.

    Raises
    ------
    UnknownNameError
        No generator has this name.
    InvalidValueError, InvalidTypeError
        The generator does not have a parameter, a value is invalid, or a value is missing for a
        parameter without a default.

    Examples
    --------
    >>> import instances
    >>> drawn = instances.generate("arrival-model-1", seed=5, n=4)
    >>> len(drawn), drawn.memory_limit
    (4, 44)
    """
    function = GENERATORS[name]
    seed = as_integer(seed, None, "seed", minimum=0)
    known = inspect.signature(function).parameters.items()
    named = {key: one for key, one in known if one.kind is inspect.Parameter.KEYWORD_ONLY}
    check_parameters(f"generator {name!r}", named, parameters)
    rng = np.random.Generator(np.random.PCG64(seed))
    is_family = isinstance(function, type) and issubclass(function, Family)
    drawn = function(**parameters).draw(rng) if is_family else function(rng, **parameters)
    if not isinstance(drawn, (Instance, Workload)):
        return drawn
    label = f"{name} (synthetic)" if SYNTHETIC in drawn.metadata else name
    settings = "".join(f",{key}={value}" for key, value in sorted(parameters.items()))
    plain = {key: _plain(value) for key, value in parameters.items()}
    origin = {"generator": name, "seed": seed, "parameters": plain}
    title = drawn.name or f"{label}[seed={seed}{settings}]"
    return drawn.renamed(title, {**drawn.metadata, "origin": origin})


def _plain(value: Any) -> Any:
    """Convert the value of a parameter to the lists and numbers that JSON would return for it."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
