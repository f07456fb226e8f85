"""Policies and routers with parameters: by name, as classes and objects, or from files."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

from instances import InvalidTypeError, InvalidValueError
from instances.generators.registry import check_parameters
from instances.registry import Registry
from instances.settings import parse_settings
from instances.user_modules import (
    SUFFIX,
    attribute_of,
    described,
    import_source,
    is_file_name,
    loaded_modules,
)
from online.policy_interface.policy import (
    _POLICIES,
    Policy,
    is_own,
    named_parameters,
    own_policy,
    policy_class,
    policy_names,
    policy_parameters,
)
from online.policy_interface.router import _ROUTERS, Router

Made = TypeVar("Made", Policy, Router)


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
    extends : ClassVar[str]
        What the message about another class says of its bases.
    """

    kind: ClassVar[str]
    base: ClassVar[Any]
    registry: ClassVar[Registry[Any]]
    extends: ClassVar[str]

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    given: Callable[..., Made] | Made | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """``name`` or ``name(key=value, ...)``."""
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.name}({settings})" if settings else self.name

    @classmethod
    def read(cls, text: str, folder: str | os.PathLike[str] = ".") -> Self:
        """Read a text, see `read_policy`."""
        kind = cls.kind
        name, _, settings = text.partition(":")
        if text.endswith(SUFFIX) or (is_file_name(name) and not settings):
            module = import_source(text.removesuffix(":"), folder, kind)
            raise InvalidValueError(None, kind, text, f"is a file: add {cls._choice(module)}")
        found = _TEXT.fullmatch(text)
        if found is None and is_file_name(name):
            reason = "is not of the form FILE.py:CLASS or FILE.py:CLASS(KEY=VALUE, ...)"
            raise InvalidValueError(None, kind, text, reason)
        if found is None or name in cls.registry:
            return cls(name, parse_settings(filter(None, settings.split(",")), f"--{kind}"))
        where, name, arguments = found["where"], found["name"].strip(), found["arguments"]
        if where is None:
            known = named_parameters(cls.registry[name]) if name in cls.registry else {}
            return cls(name, _literals(kind, text, arguments, list(known)))
        module = import_source(where, folder, kind)
        given = attribute_of(module, name)
        if given is None:
            reason = f"is not in {where}: write {cls._choice(module)}"
            raise InvalidValueError(None, kind, text, reason)
        if not isinstance(given, cls.base) and not callable(given):
            reason = f"is no {cls.base.__name__}: write {cls._choice(module)}"
            raise InvalidValueError(None, kind, text, reason)
        spec = cls.of(given)
        if not arguments:
            return spec
        if isinstance(given, cls.base):
            raise InvalidValueError(None, kind, text, "is an object, which takes no arguments")
        literals = _literals(kind, text, arguments, list(named_parameters(given)))
        return cls(spec.name, literals, spec.given)

    @classmethod
    def of(cls, thing: Any, folder: str | os.PathLike[str] = ".") -> Self:
        """Return what stands for one as a spec, see `as_spec`."""
        kind, base = cls.kind, cls.base
        if isinstance(thing, cls):
            return thing
        if isinstance(thing, str):
            return cls.read(thing, folder)
        if isinstance(thing, functools.partial) and not thing.args:
            spec = cls.of(thing.func, folder)
            return cls(spec.name, {**spec.params, **thing.keywords}, spec.given)
        if isinstance(thing, base):
            return cls(thing.name, _settings_of(thing), thing)
        if isinstance(thing, type) and issubclass(thing, base):
            name = getattr(thing, "name", thing.__name__)
            registered = name in cls.registry and not is_own(thing)
            return cls(name, {}, None if registered else thing)
        if isinstance(thing, type):
            reason = f"is no {kind}: it {cls.extends}"
            raise InvalidTypeError(None, kind, thing.__name__, reason)
        if not callable(thing):
            reason = f"is no {kind}: give a name, 'FILE.py:CLASS', a {base.__name__} or its class"
            raise InvalidTypeError(None, kind, thing, reason)
        name = getattr(thing, "__name__", type(thing).__name__)
        if name.isidentifier():
            return cls(name, {}, thing)
        made = cls(name, {}, thing).make()
        return cls(made.name, _settings_of(made), made)

    @classmethod
    def _choice(cls, module: ModuleType) -> str:
        """Name those of a module, to be written after it."""
        names = [
            name
            for name, value in vars(module).items()
            if isinstance(value, cls.base)
            or (
                (isinstance(value, type) and issubclass(value, cls.base) and is_own(value))
                and not inspect.isabstract(value)
            )
        ]
        none = f"a file or module that has a {cls.base.__name__}"
        return " or ".join(f":{name}" for name in names) or none

    def make(self) -> Made:
        """Return a fresh one.

        Raises
        ------
        UnknownNameError
            No such name; the message lists those that are.
        InvalidValueError, InvalidTypeError
            A parameter missing, unknown or out of range, or what is given makes none.
        """
        own: Any = self._own()
        if own is None:
            maker = self.registry[self.name]
            check_parameters(f"{self.kind} {self.name!r}", named_parameters(maker), self.params)
            return cast(Made, maker(**self.params))
        if isinstance(own, self.base):
            return cast(Made, copy.deepcopy(own))
        if inspect.isabstract(own):
            missing = ", ".join(sorted(getattr(own, "__abstractmethods__", ())))
            reason = f"is an abstract class: it lacks {missing}"
            raise InvalidTypeError(None, self.kind, self.name, reason)
        check_parameters(f"{self.kind} {self.name!r}", named_parameters(own), self.params)
        refusals = (InvalidValueError, InvalidTypeError)
        made = described(lambda: own(**self.params), self.label, self.kind, refusals)
        if not isinstance(made, self.base):
            reason = f"makes {made!r}, which is no {self.base.__name__}"
            raise InvalidTypeError(None, self.kind, self.label, reason)
        return cast(Made, made)

    def check_sendable(self) -> None:
        """See that it can be sent to another process.

        Raises
        ------
        InvalidValueError
            It cannot.
        """
        self.__reduce__()

    def _own(self) -> Callable[..., Made] | Made | None:
        """Return the user-defined class or object; None for one of this package."""
        if self.given is not None:
            return self.given
        registered = self.registry[self.name]
        return registered if is_own(registered) else None

    def __reduce__(self) -> tuple[Any, ...]:
        """The user's own are sent as they are here, with the modules they stand in.

        No process has what a notebook defines, and what stands in a file may be edited meanwhile.
        """
        own: Any = self._own()
        if own is None:
            return type(self), (self.name, dict(self.params))
        sent: Any = vars(self).get("_sent")
        if sent is None or sent[0] is not own:
            sent = (own, _pickled(self, own))
            object.__setattr__(self, "_sent", sent)
        return _received, (type(self), self.name, dict(self.params), sent[1])


class PolicySpec(Spec[Policy]):
    """A policy with its parameters."""

    kind, base, registry = "policy", Policy, _POLICIES
    extends = "extends neither online.PriorityPolicy nor online.Policy"


class RouterSpec(Spec[Router]):
    """A router with its parameters."""

    kind, base, registry = "router", Router, _ROUTERS
    extends = "does not extend online.Router"


AnyPolicy: TypeAlias = str | PolicySpec | Policy | Callable[..., Policy]
"""What stands for a policy: text as `read_policy` has it, an object, or what makes one."""

AnyRouter: TypeAlias = str | RouterSpec | Router | Callable[..., Router]
"""What stands for a router: text like that of a policy, an object, or what makes one."""


def _pickled(spec: Spec[Any], own: Any) -> bytes:
    """Pickle what makes one, with the code of the user's modules if that is possible."""
    import cloudpickle

    failure: Exception | None = None
    for modules in (loaded_modules(), []):
        with _by_value(modules):
            try:
                return bytes(cloudpickle.dumps(own))
            except Exception as error:  # noqa: BLE001 (whatever its parts raise)
                failure = failure or error
    reason = f"cannot be sent to other processes, only one can use it: {failure}"
    raise InvalidValueError(None, spec.kind, spec.name, reason) from failure


@contextlib.contextmanager
def _by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Have cloudpickle write the code of modules, and not their names."""
    import cloudpickle

    already = cloudpickle.list_registry_pickle_by_value()
    added = [module for module in modules if module.__name__ not in already]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _received(
    kind: type[Spec[Any]], name: str, params: dict[str, Any], pickled: bytes
) -> Spec[Any]:
    return kind(name, params, _unpickled(pickled))


@functools.lru_cache(maxsize=64)
def _unpickled(pickled: bytes) -> Any:
    import pickle

    return pickle.loads(pickled)  # noqa: S301 (from the process that gave the task)


_TEXT = re.compile(r"(?:(?P<where>.+?):)?(?P<name>[^():=]+)(?P<arguments>\(.*\))?", re.DOTALL)


def read_policy(text: str, folder: str | os.PathLike[str] = ".") -> PolicySpec:
    """A policy as a command line or an experiment file names it.

    Parameters
    ----------
    text : str
        ``NAME``, ``NAME:KEY=VALUE,...`` or ``NAME(key=value, ...)`` of a registered policy;
        ``my_rules.py:LeastVolume`` or ``package.module:LeastVolume`` of a class, function or object
        of the user's own, with arguments as in ``LeastVolume(alpha=0.2)``. Arguments are Python's
        literals.
    folder : str or os.PathLike, default "."
        Where the paths of files begin.

    Raises
    ------
    InvalidValueError
        It cannot be read so, or no such file, module or policy is there.
    """
    return PolicySpec.read(text, folder)


def _literals(kind: str, text: str, arguments: str | None, names: list[str]) -> dict[str, Any]:
    if not arguments:
        return {}
    try:
        call = ast.parse(f"f{arguments}", mode="eval").body
        assert isinstance(call, ast.Call)
        values = {
            **{names[place]: value for place, value in enumerate(call.args)},
            **{str(keyword.arg): keyword.value for keyword in call.keywords},
        }
        if len(values) == len(call.args) + len(call.keywords) and "None" not in values:
            return {key: ast.literal_eval(value) for key, value in values.items()}
    except (AssertionError, IndexError, SyntaxError, ValueError):
        pass
    reason = "has arguments that are no literals such as 0.2, 'text' or [1, 2]"
    raise InvalidValueError(None, kind, text, reason)


def as_spec(policy: AnyPolicy, folder: str | os.PathLike[str] = ".") -> PolicySpec:
    """Return a policy as a `PolicySpec`; no object is created yet.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        It stands for no policy.
    """
    return PolicySpec.of(policy, folder)


def _settings_of(thing: Policy | Router) -> dict[str, Any]:
    """Return the parameters of an object that differ from their defaults, where it stores them."""
    found = {}
    for key, parameter in named_parameters(type(thing)).items():
        value = getattr(thing, key, getattr(thing, f"_{key}", None))
        # An array or an object is told by the digest alone.
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
        and (deadlines or not getattr(policy_class(name), "reads_deadlines", False))
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
    return _made(as_spec(policy), params)


def make_router(router: AnyRouter, /, **params: Any) -> Router:
    """Make a fresh router; of an object, a copy.

    Parameters
    ----------
    router : AnyRouter
        A name, text such as ``"my_router.py:Mine(alpha=0.2)"``, a class or function that makes a
        router, a `RouterSpec` or a `Router`.
    **params : Any
        Parameters of the router, beside those that the text gives.

    Raises
    ------
    UnknownNameError
        No such router; the message lists those that are.
    InvalidValueError, InvalidTypeError
        A parameter it does not have, a bad value, or nothing that stands for a router.
    MissingParameterError
        A parameter without a default is not given.
    """
    return _made(RouterSpec.of(router), params)


def _made(spec: Spec[Made], params: Mapping[str, Any]) -> Made:
    if params and isinstance(spec.given, spec.base):
        raise InvalidTypeError(
            None, spec.kind, spec.given, "is an object, which takes no arguments"
        )
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
        Bad parameters, a policy given twice, two of one label, none at all, or one that needs a
        service level where there are no ``deadlines``.
    """
    chosen: Iterable[AnyPolicy]
    if policies is None:
        chosen = parameterless_policies(deadlines=deadlines)
    elif isinstance(policies, (str, PolicySpec, Policy)) or callable(policies):
        chosen = [policies]
    elif isinstance(policies, Iterable):
        chosen = policies
    else:
        chosen = [as_spec(policies)]
    specs = [as_spec(policy) for policy in chosen]
    seen: dict[str, PolicySpec] = {}
    for spec in specs:
        made = spec.make()
        if made.reads_deadlines and not deadlines:
            reason = "needs a service level, as level=... or --slo gives"
            raise InvalidValueError(None, "policies", spec.label, reason)
        taken = spec.name in policy_names() and own_policy(spec.name) is None
        if taken and (is_own(type(made)) or made.name != spec.name):
            reason = "is the name of a policy of this package: give yours another"
            raise InvalidValueError(None, "policies", spec.name, reason)
        if spec.label in seen:
            same = seen[spec.label].make().__class__ is made.__class__
            if isinstance(spec.given, Policy):
                same = seen[spec.label].given is spec.given
            reason = "is given twice" if same else "names two policies: give one another name"
            raise InvalidValueError(None, "policies", spec.label, reason)
        seen[spec.label] = spec
    if not specs:
        raise InvalidValueError(None, "policies", [], "is empty: at least one is needed")
    return specs
