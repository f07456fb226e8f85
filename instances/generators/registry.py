"""Named instance generators: one registry, one way to call them."""

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
"""Metadata key of instances that stand in for data: what is imitated. Their names say so too."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(ranged, chosen))
class Family:
    """Base of a generator: a dataclass whose `ranged` and `chosen` fields are its parameters.

    ``class Mine(Family, name="mine")`` registers a generator.
    """

    def __init_subclass__(cls, name: str = "") -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        if name:
            GENERATORS.add(name, cls)

    def __post_init__(self) -> None:
        check_ranges(self, owner=None)

    def draw(self, rng: np.random.Generator) -> Any:
        """Make what `generate` returns, once the fields are known to be in their ranges."""
        raise NotImplementedError


def register_generator(name: str) -> Callable[[GeneratorFunction], GeneratorFunction]:
    """Decorator: make ``function(rng, *, ...)`` or a `Family` available as ``generate(name, ...)``.

    What has the same module and qualified name, such as a notebook's cell run again, takes the
    place of the one before, with a warning; so does what an edited cell or file calls otherwise.

    Raises
    ------
    ValueError
        Another function has the name.
    """
    return GENERATORS.register(name)


def generator_names() -> list[str]:
    """The registered generator names, sorted."""
    return GENERATORS.names()


def generator_parameters(name: str) -> dict[str, inspect.Parameter]:
    """The keyword parameters that ``generate(name, ...)`` accepts, with their defaults.

    Raises
    ------
    UnknownNameError
        No such generator.
    """
    parameters = inspect.signature(GENERATORS[name]).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def generator_documentation(name: str) -> str:
    """Documentation of a generator: its law, source and parameters, after a line of summary.

    Raises
    ------
    UnknownNameError
        No such generator.
    """
    return inspect.getdoc(GENERATORS[name]) or ""


def check_parameters(
    owner: str, known: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Hold keyword arguments against a signature, before the call.

    Raises
    ------
    InvalidValueError
        One that ``owner`` does not have.
    InvalidTypeError
        None for a parameter without a default.
    """
    for key, value in given.items():
        if key not in known:
            reason = f"is not one of its parameters ({', '.join(known) or 'it has none'})"
            raise InvalidValueError(owner, key, value, reason)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in given:
            raise InvalidTypeError(owner, key, None, "is not given and has no default")


def generate(name: str, seed: int = 0, **parameters: Any) -> Any:
    """An `Instance`, a `Workload`, or for adaptive adversaries an arrival source, by ``seed``.

    The metadata records generator, seed and parameters, and its name tells them.

    Raises
    ------
    UnknownNameError
        No such generator.
    InvalidValueError, InvalidTypeError
        A parameter the generator does not have, a bad value, or no value for a parameter without a
        default.

    Examples
    --------
    >>> import instances
    >>> drawn = instances.generate("arrival-model-1", seed=5, n=4)
    >>> len(drawn), drawn.memory_limit
    (4, 44)
    """
    function = GENERATORS[name]
    seed = as_integer(seed, None, "seed", minimum=0)
    check_parameters(f"generator {name!r}", generator_parameters(name), parameters)
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
    """A parameter as JSON has it, so that it comes back equal."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
