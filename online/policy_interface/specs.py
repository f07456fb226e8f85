"""Policies and routers with parameters: by name, as classes and objects, or from files."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import json
import os
import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

from instances import InvalidTypeError, InvalidValueError
from instances.generators.registry import check_parameters
from instances.registry import Registry
from instances.settings import parse_value
from instances.user_modules import (
    attribute_of,
    described,
    import_source,
    is_file_name,
    loaded_modules,
)

from .policy import _POLICIES, Policy, is_own, named_parameters, policy_names, policy_parameters
from .router import _ROUTERS, Router

Made = TypeVar("Made", Policy, Router)

_FORM = re.compile(r"(?:(?P<where>.+?):)?(?P<name>[^():=]+)(?P<arguments>\(.*\))?", re.DOTALL)
_WORD = re.compile(r"[\w./:+*?-]+")


@dataclass(frozen=True)
class Spec(Generic[Made]):
    """A policy or router with its parameters: by registered name, or given as what makes it.

    Attributes
    ----------
    name : str
        The registered name, or what the thing given is called.
    params : Mapping[str, Any]
        Its parameters.
    given : Callable or Policy or Router or None
        The class or function that makes it, or an object, of which every run has a copy, as it is;
        None takes what is registered by the name.
    kind : ClassVar[str]
        What errors call it.
    base : ClassVar[type]
        The class that all of the kind extend.
    registry : ClassVar[Registry]
        Those that are registered.
    """

    kind: ClassVar[str]
    base: ClassVar[Any]
    registry: ClassVar[Registry[Any]]

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    given: Callable[..., Made] | Made | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """``name`` or ``name(key=value, ...)``."""
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.name}({settings})" if settings else self.name

    @property
    def own(self) -> Callable[..., Made] | Made | None:
        """The user-defined class, function or object; None for one of this package."""
        if self.given is not None:
            return self.given
        registered = self.registry.get(self.name)
        return registered if registered and is_own(registered) else None

    @classmethod
    def read(cls, text: str, folder: str | os.PathLike[str] = ".") -> Self:
        """Read a text, see `read_policy`."""
        name, colon, rest = text.partition(":")
        if name in cls.registry and colon:
            # NAME:KEY=VALUE,... needs no quotes in a shell.
            text = f"{name}({rest})"
        elif is_file_name(file := text.removesuffix(":")) and ":" not in file[2:]:
            text = f"{file}:?"
        found = _FORM.fullmatch(text)
        if found is None:
            raise cls._refused(text, "is not of the form NAME(KEY=VALUE, ...) or FILE.py:NAME(...)")
        where, name = found["where"], found["name"].strip()
        maker: Any
        if where is None:
            spec, maker = cls(name), cls.registry.get(name)
        else:
            spec = cls._from_file(text, where, name, folder)
            maker = spec.own
        if not found["arguments"] or maker is None:
            return spec
        if isinstance(maker, cls.base):
            raise cls._refused(text, "is an object, which takes no arguments")
        names = [*named_parameters(maker)]
        return replace(spec, params=cls._arguments(text, found["arguments"], names))

    @classmethod
    def _from_file(cls, text: str, where: str, name: str, folder: str | os.PathLike[str]) -> Self:
        """Return what a file or module calls by a name."""
        module = import_source(where, folder, cls.kind)
        maker = attribute_of(module, name)
        if isinstance(maker, cls.base) or callable(maker):
            return cls.of(maker)

        def fits(value: Any) -> bool:
            if not isinstance(value, type):
                return isinstance(value, cls.base)
            return issubclass(value, cls.base) and is_own(value) and not inspect.isabstract(value)

        names = [f":{name}" for name, value in vars(module).items() if fits(value)]
        choice = " or ".join(names) or f"a file or module that has a {cls.base.__name__}"
        raise cls._refused(text.removesuffix(":?"), f"names no {cls.base.__name__}: write {choice}")

    @classmethod
    def _arguments(cls, text: str, arguments: str, names: list[str]) -> dict[str, Any]:
        """Read ``(0.2, key=value)``, of which nothing is run; a bare word is text."""
        source = f"f{arguments}"

        def read(node: ast.expr) -> Any:
            word = ast.get_source_segment(source, node) or ""
            with contextlib.suppress(ValueError):
                return ast.literal_eval(node)
            return parse_value(word) if _WORD.fullmatch(word) else ast.literal_eval(node)

        with contextlib.suppress(IndexError, SyntaxError, ValueError):
            call = ast.parse(source, mode="eval").body
            if isinstance(call, ast.Call):
                values = [(names[place], one) for place, one in enumerate(call.args)]
                values += [(one.arg, one.value) for one in call.keywords if one.arg]
                given = {key: read(node) for key, node in values}
                # Fewer if a name is given twice, or **names.
                if len(given) == len(call.args) + len(call.keywords):
                    return given
        raise cls._refused(text, "has arguments unlike KEY=VALUE of 0.2, word, 'text' or [1, 2]")

    @classmethod
    def of(cls, thing: Any, folder: str | os.PathLike[str] = ".") -> Self:
        """Return what stands for one as a spec: text, a class, a function, an object, a spec.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            It stands for none.
        """
        if isinstance(thing, cls):
            return thing
        if isinstance(thing, str):
            return cls.read(thing, folder)
        if isinstance(thing, cls.base):
            return cls(thing.name, _settings_of(thing), thing)
        is_class = isinstance(thing, type)
        if not callable(thing) or (is_class and not issubclass(thing, cls.base)):
            kind, base = cls.kind, cls.base.__name__
            reason = (
                f"is no {kind}: give a name, 'FILE.py:CLASS', a {base} or a class that extends it"
            )
            raise InvalidTypeError(None, kind, thing.__name__ if is_class else thing, reason)
        name = getattr(thing, "__name__", "")
        if is_class:
            name = getattr(thing, "name", name)
            registered = name in cls.registry and not is_own(thing)
            return cls(name, {}, None if registered else thing)
        if name.isidentifier():
            return cls(name, {}, thing)
        # A lambda or a partial function: what it makes has a name.
        return cls.of(cls(type(thing).__name__, {}, thing).make())

    @classmethod
    def _refused(cls, text: str, reason: str) -> InvalidValueError:
        return InvalidValueError(None, cls.kind, text, reason)

    def make(self) -> Made:
        """Return a fresh one.

        Raises
        ------
        UnknownNameError
            No such name; the message lists those that are.
        InvalidValueError, InvalidTypeError
            A parameter missing, unknown or out of range, or what is given makes none.
        """
        maker: Any = self.registry[self.name] if self.given is None else self.given
        if isinstance(maker, self.base):
            return cast(Made, copy.deepcopy(maker))
        check_parameters(f"{self.kind} {self.name!r}", named_parameters(maker), self.params)
        refusals = (InvalidValueError, InvalidTypeError)
        made = described(lambda: maker(**self.params), self.name, self.kind, refusals)
        if not isinstance(made, self.base):
            reason = f"makes {made!r}, which is no {self.base.__name__}"
            raise InvalidTypeError(None, self.kind, self.label, reason)
        return cast(Made, made)

    def check_sendable(self) -> None:
        """Raise `InvalidValueError` if it cannot be sent to another process."""
        self.__reduce__()

    def __reduce__(self) -> tuple[Any, ...]:
        """The user's own are sent as they are here, with the modules they stand in.

        No process has what a notebook defines, and what stands in a file may be edited meanwhile.
        """
        pickled = None if self.own is None else self._pickled()
        return _received, (type(self), self.name, dict(self.params), pickled)

    def _pickled(self) -> bytes:
        """Pickle what makes one, with the code of the user's modules and not their names."""
        import cloudpickle

        already = cloudpickle.list_registry_pickle_by_value()
        added = [module for module in loaded_modules() if module.__name__ not in already]
        try:
            for module in added:
                cloudpickle.register_pickle_by_value(module)
            return bytes(cloudpickle.dumps(self.own))
        except Exception as error:
            reason = f"cannot be sent to other processes, only one can use it: {error}"
            raise self._refused(self.name, reason) from error
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


class PolicySpec(Spec[Policy]):
    """A policy with its parameters."""

    kind, base, registry = "policy", Policy, _POLICIES


class RouterSpec(Spec[Router]):
    """A router with its parameters."""

    kind, base, registry = "router", Router, _ROUTERS


AnyPolicy: TypeAlias = str | PolicySpec | Policy | Callable[..., Policy]
"""What stands for a policy: text as `read_policy` has it, an object, or what makes one."""

AnyRouter: TypeAlias = str | RouterSpec | Router | Callable[..., Router]
"""What stands for a router: text like that of a policy, an object, or what makes one."""


def _received(
    kind: type[Spec[Any]], name: str, params: dict[str, Any], pickled: bytes | None
) -> Spec[Any]:
    return kind(name, params, None if pickled is None else _unpickled(pickled))


@functools.lru_cache(maxsize=64)
def _unpickled(pickled: bytes) -> Any:
    return pickle.loads(pickled)  # noqa: S301 (from the process that gave the task)


def read_policy(text: str, folder: str | os.PathLike[str] = ".") -> PolicySpec:
    """A policy as a command line or an experiment file names it.

    Parameters
    ----------
    text : str
        ``NAME`` or ``NAME(key=value, ...)`` of a registered policy, also ``NAME:key=value,...``;
        ``my_rules.py:LeastVolume`` or ``package.module:LeastVolume`` of a class, function or object
        of the user's own, with arguments as in ``LeastVolume(alpha=0.2)``. Values are words or
        Python's literals.
    folder : str or os.PathLike, default "."
        Where the paths of files begin.

    Raises
    ------
    InvalidValueError
        It cannot be read so, or no such file, module or policy is there.
    """
    return PolicySpec.read(text, folder)


def _settings_of(thing: Policy | Router) -> dict[str, Any]:
    """Return the parameters of an object that differ from their defaults, where it stores them."""
    found = {}
    for key, parameter in named_parameters(type(thing)).items():
        value = getattr(thing, key, getattr(thing, f"_{key}", None))
        # An array or an object has no short text.
        with contextlib.suppress(TypeError, ValueError):
            if value is not None and value != parameter.default:
                json.dumps(value, allow_nan=False)
                found[key] = value
    return found


def parameterless_policies(*, deadlines: bool = False) -> list[str]:
    """Return names of the policies that can be made without parameters, sorted.

    Those that need a service level are left out unless there are ``deadlines``.
    """
    return [
        name
        for name in policy_names()
        if all(p.default is not p.empty for p in policy_parameters(name).values())
        and (deadlines or not getattr(_POLICIES[name], "reads_deadlines", False))
    ]


def make_policy(policy: AnyPolicy, /, **params: Any) -> Policy:
    """Make a fresh policy; of an object, a copy.

    Parameters
    ----------
    policy : AnyPolicy
        A name, text such as ``"my_rules.py:LeastVolume(alpha=0.2)"``, a class or function that
        makes a policy, a `PolicySpec` or a `Policy`.
    **params : Any
        Parameters of the policy, beside those that the text gives.

    Raises
    ------
    UnknownNameError
        No such policy; the message lists those that are.
    InvalidValueError, InvalidTypeError
        A parameter it does not have, a bad value, or nothing that stands for a policy.
    MissingParameterError
        A parameter without a default is not given.
    """
    return _made(PolicySpec.of(policy), params)


def make_router(router: AnyRouter, /, **params: Any) -> Router:
    """Make a fresh router; of an object, a copy. As `make_policy` in all else.

    Parameters
    ----------
    router : AnyRouter
        A name, text such as ``"my_router.py:Mine(alpha=0.2)"``, a class or function that makes a
        router, a `RouterSpec` or a `Router`.
    **params : Any
        Parameters of the router, beside those that the text gives.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError, MissingParameterError
        As `make_policy`.
    """
    return _made(RouterSpec.of(router), params)


def _made(spec: Spec[Made], params: Mapping[str, Any]) -> Made:
    if params and isinstance(spec.given, spec.base):
        reason = "is an object, which takes no arguments"
        raise InvalidTypeError(None, spec.kind, spec.given, reason)
    return replace(spec, params={**spec.params, **params}).make()


def policy_specs(
    policies: AnyPolicy | Iterable[AnyPolicy] | None, *, deadlines: bool = False
) -> list[PolicySpec]:
    """Check and normalise a choice of policies; None takes `parameterless_policies`.

    Raises
    ------
    UnknownNameError
        No such policy; the message lists those that are.
    InvalidValueError, InvalidTypeError
        Bad parameters, two policies of one label, none at all, or one that needs a service level
        where there are no ``deadlines``.
    """
    if policies is None:
        policies = parameterless_policies(deadlines=deadlines)
    several = isinstance(policies, Iterable) and not isinstance(policies, str)
    specs: list[PolicySpec] = []
    for one in cast(Any, policies if several else [policies]):
        spec, reason = PolicySpec.of(one), ""
        made, registered = spec.make(), _POLICIES.get(spec.name)
        if made.reads_deadlines and not deadlines:
            reason = "needs a service level, as level=... or --slo gives"
        elif is_own(type(made)) and registered and not is_own(registered):
            reason = "is the name of a policy of this package: give yours another"
        elif any(spec.label == other.label for other in specs):
            reason = "is given twice: of two policies that differ, give one another name"
        if reason:
            raise InvalidValueError(None, "policies", spec.label, reason)
        specs.append(spec)
    if not specs:
        raise InvalidValueError(None, "policies", [], "is empty: at least one is needed")
    return specs
