"""Policies and routers with their parameters, given by name, as class or object, or from a file."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import os
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

from instances import InvalidTypeError, InvalidValueError, user_modules
from instances.generators.registry import check_parameters
from instances.registry import Registry
from instances.settings import parse_value

from .policy import POLICIES, Policy, is_own, named_parameters
from .router import ROUTERS, Router

Made = TypeVar("Made", Policy, Router)

_FORM = re.compile(r"(?:(.+?):)?([^():=]+)(\(.*\))?", re.DOTALL)
_WORD = re.compile(r"[\w./:+*?-]+")


@dataclass(frozen=True)
class Spec(Generic[Made]):
    """A policy or router with its parameters: a registered name, or a user's class or object.

    Attributes
    ----------
    name : str
        The registered name, or the name of the class, function or object ``given``.
    params : Mapping[str, Any]
        Parameters by name.
    given : Callable or Policy or Router or None
        The class or function that makes the policy or router, or an object, of which each run gets
        a copy. None: the class registered under ``name``.
    kind : ClassVar[str]
        ``"policy"`` or ``"router"``, for error messages.
    base : ClassVar[type]
        The base class, `Policy` or `Router`.
    registry : ClassVar[Registry]
        The registered policies or routers.
    """

    kind: ClassVar[str]
    base: ClassVar[Any]
    registry: ClassVar[Registry[Any]]

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    given: Callable[..., Made] | Made | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """``name`` or ``name(key=value, ...)``, as tables show it."""
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.name}({settings})" if settings else self.name

    @property
    def own(self) -> Callable[..., Made] | Made | None:
        """The user-defined class, function or object. None if it is from this package."""
        if self.given is not None:
            return self.given
        maker = self.registry.get(self.name)
        return maker if maker and is_own(maker) else None

    @classmethod
    def of(cls, thing: Any, folder: str | os.PathLike[str] = ".") -> Self:
        """Return the spec for ``thing``: text (see `read`), a class, function, object or a spec.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            ``thing`` is none of these, or does not make a policy or router.
        """
        if isinstance(thing, cls):
            return thing
        if isinstance(thing, str):
            return cls.read(thing, folder)
        if isinstance(thing, cls.base):
            return cls(getattr(thing, "name", type(thing).__name__), _settings_of(thing), thing)
        is_class, name = inspect.isclass(thing), getattr(thing, "__name__", "")
        if not callable(thing) or (is_class and not issubclass(thing, cls.base)):
            kind, base = cls.kind, cls.base.__name__
            reason = f"is not a {kind}: give a name, 'FILE.py:CLASS', a {base} or its class"
            raise InvalidTypeError(None, kind, name if is_class else thing, reason)
        if is_class:
            name = getattr(thing, "name", name)
            return cls(name, {}, None if name in cls.registry and not is_own(thing) else thing)
        if name.isidentifier():
            return cls(name, {}, thing)
        # A lambda or a partial function has no name, so the spec is that of the object it makes.
        return cls.of(cls(type(thing).__name__, {}, thing).make())

    @classmethod
    def several(cls, given: Any) -> list[Self]:
        """Return the specs of one policy or router, or of several, with distinct labels.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            As for `of`. Also if the list is empty, or if two specs have the same label.
        """
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        specs = [cls.of(one) for one in (given if is_list else [given])]
        if not specs:
            raise InvalidValueError(None, cls.kind, [], "is empty: at least one is needed")
        for label, count in Counter(spec.label for spec in specs).items():
            if count > 1:
                reason = "is given twice: give one of the two another name"
                raise cls._refused(label, reason)
        return specs

    @classmethod
    def read(cls, text: str, folder: str | os.PathLike[str] = ".") -> Self:
        """Return the spec of a text in the form of a command line or an experiment file.

        Parameters
        ----------
        text : str
            ``NAME``, ``NAME(key=value, ...)`` or ``NAME:key=value,...`` for a registered policy or
            router. For a user-defined class, function or object: ``my_rules.py:LeastVolume`` or
            ``package.module:LeastVolume``, with arguments as in ``LeastVolume(alpha=0.2)``. Values
            are words or Python literals.
        folder : str or os.PathLike, default "."
            Folder to which paths in ``text`` are relative.

        Raises
        ------
        InvalidValueError
            ``text`` has another form, or there is no such file, module or name.
        """
        name, colon, rest = text.partition(":")
        if name in cls.registry and colon:
            # The form NAME:KEY=VALUE,... exists because it needs no quotes in a shell.
            text = f"{name}({rest})"
        elif user_modules.is_file_name(file := text.removesuffix(":")) and ":" not in file[2:]:
            text = f"{file}:?"
        found = _FORM.fullmatch(text)
        if found is None:
            raise cls._refused(text, "is not of the form NAME(KEY=VALUE, ...) or FILE.py:NAME(...)")
        where, name, arguments = found.groups()
        spec = cls(name.strip()) if where is None else cls._imported(text, where, name, folder)
        maker: Any = cls.registry.get(spec.name) if spec.given is None else spec.given
        if not arguments or maker is None:
            return spec
        if isinstance(maker, cls.base):
            raise cls._refused(text, "is an object, which takes no arguments")
        return replace(spec, params=cls._arguments(text, arguments, [*named_parameters(maker)]))

    @classmethod
    def _imported(cls, text: str, where: str, name: str, folder: str | os.PathLike[str]) -> Self:
        """Return the spec of the class, function or object ``name``.

        ``where`` is its file or module, relative to ``folder``. ``text`` is the whole text, for
        messages.
        """
        module, base = user_modules.import_source(where, folder, cls.kind), cls.base
        maker = user_modules.attribute_of(module, name.strip())
        if isinstance(maker, base) or callable(maker):
            return cls.of(maker)
        names = [
            f":{name}"
            for name, one in vars(module).items()
            if isinstance(one, base) or (inspect.isclass(one) and issubclass(one, base))
            if is_own(one)
        ]
        choice = " or ".join(names) or f"a file or module that has a {base.__name__}"
        raise cls._refused(text.removesuffix(":?"), f"names no {base.__name__}: write {choice}")

    @classmethod
    def _arguments(cls, text: str, arguments: str, names: list[str]) -> dict[str, Any]:
        """Return the parameters in ``arguments``, a text such as ``(0.2, key=word)``, by name.

        Values are literals or words. ``names`` has the names of positional arguments in order.
        """
        source = f"f{arguments}"

        def read(node: ast.expr) -> Any:
            try:
                return ast.literal_eval(node)
            except ValueError:
                word = ast.get_source_segment(source, node) or ""
                if not _WORD.fullmatch(word):
                    raise
                return parse_value(word)

        with contextlib.suppress(AttributeError, SyntaxError, ValueError):
            call: Any = ast.parse(source, mode="eval").body
            pairs = [*zip(names, call.args, strict=False)]
            pairs += [(one.arg, one.value) for one in call.keywords if one.arg]
            given = {key: read(node) for key, node in pairs}
            # The dict has fewer entries than the call has arguments if there are too many
            # positional values, if a name is given twice, or if the call has ``**names``.
            if len(given) == len(call.args) + len(call.keywords):
                return given
        raise cls._refused(text, "has arguments unlike KEY=0.2, KEY=word, KEY='text' or KEY=[1, 2]")

    @classmethod
    def _refused(cls, text: str, reason: str) -> InvalidValueError:
        return InvalidValueError(None, cls.kind, text, reason)

    def make(self, **params: Any) -> Made:
        """Return a new policy or router. ``params`` are added to the parameters of the spec.

        Raises
        ------
        UnknownNameError
            The name is not registered; the message lists the registered names.
        InvalidValueError, InvalidTypeError
            A parameter is missing, unknown or out of range, or ``given`` makes something else.
        """
        maker: Any = self.registry[self.name] if self.given is None else self.given
        if isinstance(maker, self.base):
            if params:
                reason = "is an object, which takes no arguments"
                raise InvalidTypeError(None, self.kind, maker, reason)
            return cast(Made, copy.deepcopy(maker))
        params = {**self.params, **params}
        check_parameters(f"{self.kind} {self.name!r}", named_parameters(maker), params)
        refusals = (InvalidValueError, InvalidTypeError)
        made = user_modules.described(lambda: maker(**params), self.name, self.kind, refusals)
        if not isinstance(made, self.base):
            reason = f"makes {made!r}, which is not a {self.base.__name__}"
            raise InvalidTypeError(None, self.kind, self.label, reason)
        return cast(Made, made)

    def check_sendable(self) -> None:
        """Raise `InvalidValueError` if the spec cannot be sent to another process."""
        self.__reduce__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the spec. A user-defined class is pickled with the code of its module.

        The code is needed because other processes do not have the definitions of a notebook, and
        because files may be edited while an experiment runs.
        """
        pickled = None if self.own is None else self._pickled()
        return _received, (type(self), self.name, dict(self.params), pickled)

    def _pickled(self) -> bytes:
        import cloudpickle

        for module in user_modules.loaded_modules():
            cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(self.own))
        except Exception as error:
            reason = f"cannot be sent to other processes, only one can use it: {error}"
            raise self._refused(self.name, reason) from error


class PolicySpec(Spec[Policy]):
    """A policy by registered name or as a user-defined class or object, with its parameters."""

    kind, base, registry = "policy", Policy, POLICIES


class RouterSpec(Spec[Router]):
    """A router by registered name or as a user-defined class or object, with its parameters."""

    kind, base, registry = "router", Router, ROUTERS


AnyPolicy: TypeAlias = str | PolicySpec | Policy | Callable[..., Policy]
"""A policy: a text for `PolicySpec.read`, a spec, an object, or a class or function making one."""

AnyRouter: TypeAlias = str | RouterSpec | Router | Callable[..., Router]
"""A router: a text for `RouterSpec.read`, a spec, an object, or a class or function making one."""


_unpickled = functools.lru_cache(maxsize=64)(pickle.loads)


def _received(
    kind: type[Spec[Any]], name: str, params: dict[str, Any], pickled: bytes | None
) -> Spec[Any]:
    return kind(name, params, None if pickled is None else _unpickled(pickled))


def _settings_of(thing: Policy | Router) -> dict[str, Any]:
    """Return the parameters with which an object was made, as its attributes store them.

    Parameters that have their default values are left out.
    """
    return {
        key: value
        for key, one in named_parameters(type(thing)).items()
        if isinstance(value := getattr(thing, key, None), str | int | float | list | tuple)
        if value != one.default
    }


def make_policy(policy: AnyPolicy, /, **params: Any) -> Policy:
    """Make a new policy from a name, text, class or spec, or copy a policy object.

    Parameters
    ----------
    policy : AnyPolicy
        A name, text such as ``"my_rules.py:LeastVolume(alpha=0.2)"``, a class or function that
        makes a policy, a `PolicySpec` or a `Policy`.
    **params : Any
        Parameters of the policy, in addition to those in the text.

    Raises
    ------
    UnknownNameError
        The name is not registered; the message lists the registered names.
    InvalidValueError, InvalidTypeError
        An unknown parameter, a bad value, or an argument that does not make a policy.
    MissingParameterError
        A parameter without a default is not given.
    """
    return PolicySpec.of(policy).make(**params)


def make_router(router: AnyRouter, /, **params: Any) -> Router:
    """Make a new router from a name, text, class or spec, or copy a router object.

    Parameters
    ----------
    router : AnyRouter
        A name, text such as ``"my_router.py:Mine(alpha=0.2)"``, a class or function that makes a
        router, a `RouterSpec` or a `Router`.
    **params : Any
        Parameters of the router, in addition to those in the text.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError, MissingParameterError
        As `make_policy`.
    """
    return RouterSpec.of(router).make(**params)


def parameterless_policies(*, deadlines: bool = False) -> list[str]:
    """Return names of the policies that can be made without parameters, sorted.

    Policies that need a service level are included only if ``deadlines`` is True.
    """
    return [
        name
        for name, maker in sorted(POLICIES.items())
        if all(one.default is not one.empty for one in named_parameters(maker).values())
        if deadlines or not getattr(maker, "reads_deadlines", False)
    ]


def policy_specs(
    policies: AnyPolicy | Iterable[AnyPolicy] | None, *, deadlines: bool = False
) -> list[PolicySpec]:
    """Return the specs of one or more policies. None stands for `parameterless_policies`.

    Raises
    ------
    UnknownNameError
        A name is not registered; the message lists the registered names.
    InvalidValueError, InvalidTypeError
        Bad parameters, two policies with the same label, no policy at all, or a policy that needs a
        service level although ``deadlines`` is False.
    """
    if policies is None:
        policies = parameterless_policies(deadlines=deadlines)
    specs = PolicySpec.several(policies)
    for spec in specs:
        made, registered, reason = spec.make(), POLICIES.get(spec.name), ""
        if made.reads_deadlines and not deadlines:
            reason = "needs a service level, as level=... or --slo gives"
        elif is_own(type(made)) and registered and not is_own(registered):
            reason = "is the name of a policy of this package: give yours another"
        if reason:
            raise InvalidValueError(None, "policies", spec.label, reason)
    return specs
