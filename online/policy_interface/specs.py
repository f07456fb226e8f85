"""Policies and their parameters: by name, as classes and objects, or out of the user's files."""

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
from typing import Any, TypeAlias

from instances import InvalidTypeError, InvalidValueError
from instances.generators.registry import check_parameters
from instances.settings import parse_settings
from instances.sources import UNSTORED, loaded_modules, remember, user_sources
from instances.user_modules import attribute_of, described, import_source, is_file_name
from online.policy_interface.policy import (
    Policy,
    is_own,
    named_parameters,
    own_policy,
    policy_class,
    policy_names,
    policy_parameters,
)


@dataclass(frozen=True)
class PolicySpec:
    """A policy with its parameters: by registered name, or given as what makes it.

    Attributes
    ----------
    name : str
        The registered name, or what the policy given is called.
    params : Mapping[str, Any]
        Its parameters.
    given : Callable[..., Policy] or Policy or None
        The class or function that makes it, or an object, of which every run has a copy, as it is;
        None takes what is registered by the name.
    digest : str or None
        That of its code, where it was `pinned` or comes from another process.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    given: Callable[..., Policy] | Policy | None = field(default=None, repr=False)
    digest: str | None = field(default=None, repr=False, compare=False)

    @property
    def label(self) -> str:
        """``name`` or ``name(key=value, ...)``."""
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.name}({settings})" if settings else self.name

    def make(self) -> Policy:
        """Return a fresh policy.

        Raises
        ------
        UnknownNameError
            No such policy; the message lists those that are.
        InvalidValueError, InvalidTypeError
            A parameter missing, unknown or out of range, or what is given makes no policy.
        """
        own = self._own()
        if own is None:
            check_parameters(f"policy {self.name!r}", policy_parameters(self.name), self.params)
            return policy_class(self.name)(**self.params)
        if isinstance(own, Policy):
            return copy.deepcopy(own)
        if inspect.isabstract(own):
            missing = ", ".join(sorted(getattr(own, "__abstractmethods__", ())))
            reason = f"is an abstract class: it lacks {missing}"
            raise InvalidTypeError(None, "policy", self.name, reason)
        check_parameters(f"policy {self.name!r}", named_parameters(own), self.params)
        refusals = (InvalidValueError, InvalidTypeError)
        made = described(lambda: own(**self.params), self.label, "policy", refusals)
        if not isinstance(made, Policy):
            raise InvalidTypeError(
                None, "policy", self.label, f"makes {made!r}, which is no Policy"
            )
        return made

    @property
    def sources(self) -> str | None:
        """Digest of the user's own code behind it, see `instances.sources.user_sources`.

        Raises
        ------
        UnknownNameError
            No such policy.
        InvalidValueError
            A file of it was edited after it was imported, or cannot be read.
        """
        own = self._own()
        if self.digest or own is None:
            return self.digest
        return user_sources(own, f"policy {self.name!r}")

    def pinned(self) -> PolicySpec:
        """A copy that keeps its code and the digest of it, whatever is registered later.

        Raises
        ------
        UnknownNameError, InvalidValueError
            As `sources`.
        """
        return replace(self, given=self._own(), digest=self.sources)

    def check_sendable(self) -> None:
        """See that it can be sent to another process.

        Raises
        ------
        InvalidValueError
            It cannot.
        """
        self.__reduce__()

    def _own(self) -> Callable[..., Policy] | Policy | None:
        """Return the user-defined class or object; None for a policy of this package."""
        return own_policy(self.name) if self.given is None else self.given

    def __reduce__(self) -> tuple[Any, ...]:
        """The user's own policies are sent as they are here, with the modules they stand in.

        No process has what a notebook defines, and what stands in a file may be edited meanwhile.
        """
        own = self._own()
        if own is None:
            return type(self), (self.name, dict(self.params))
        sent = vars(self).get("_sent")
        if sent is None or sent[0] is not own:
            sources = None
            with contextlib.suppress(InvalidValueError):
                sources = self.sources
            sent = own, *_pickled(self.name, own, sources)
            object.__setattr__(self, "_sent", sent)
        return _received, (self.name, dict(self.params), *sent[1:])


AnyPolicy: TypeAlias = str | PolicySpec | Policy | Callable[..., Policy]
"""What stands for a policy: text as `read_policy` has it, an object, or what makes one."""


def _pickled(name: str, own: Any, sources: str | None) -> tuple[bytes, str | None]:
    """Pickle a policy; keep its digest if it is sent by value or has no file."""
    import cloudpickle

    failure: Exception | None = None
    for by_value in (True, False):
        with _by_value(loaded_modules() if by_value else ()):
            try:
                carried = by_value or (sources or "").startswith(UNSTORED)
                return cloudpickle.dumps(own), sources if carried else None
            except Exception as error:  # noqa: BLE001 (whatever its parts raise)
                failure = failure or error
    reason = f"cannot be sent to other processes, only one can use it: {failure}"
    raise InvalidValueError(None, "policy", name, reason) from failure


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


def _received(name: str, params: dict[str, Any], pickled: bytes, sources: str | None) -> PolicySpec:
    return PolicySpec(name, params, _unpickled(pickled), sources)


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
    name, _, settings = text.partition(":")
    if is_file_name(name) and not settings:
        module = import_source(name, folder, "policy")
        raise InvalidValueError(None, "policy", text, f"is a file: add {_choice(module)}")
    found = _TEXT.fullmatch(text)
    if found is None and is_file_name(name):
        reason = "is not of the form FILE.py:CLASS or FILE.py:CLASS(KEY=VALUE, ...)"
        raise InvalidValueError(None, "policy", text, reason)
    if found is None or name in policy_names():
        return PolicySpec(name, parse_settings(filter(None, settings.split(",")), "--policy"))
    where, name, arguments = found["where"], found["name"].strip(), found["arguments"]
    if where is None:
        known = policy_parameters(name) if name in policy_names() else {}
        return PolicySpec(name, _literals(text, arguments, list(known)))
    module = import_source(where, folder, "policy")
    given = attribute_of(module, name)
    if given is None:
        raise InvalidValueError(None, "policy", text, f"is not in {where}: write {_choice(module)}")
    if not isinstance(given, Policy) and not callable(given):
        raise InvalidValueError(None, "policy", text, f"is no Policy: write {_choice(module)}")
    spec = as_spec(given)
    if not arguments:
        return spec
    if isinstance(given, Policy):
        raise InvalidValueError(None, "policy", text, "is an object, which takes no arguments")
    return PolicySpec(
        spec.name, _literals(text, arguments, list(named_parameters(given))), spec.given
    )


def _choice(module: ModuleType) -> str:
    """The policies of a module, to be named after it."""
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, Policy)
        or (
            (isinstance(value, type) and issubclass(value, Policy) and is_own(value))
            and not inspect.isabstract(value)
        )
    ]
    return " or ".join(f":{name}" for name in names) or "a file or module that has a Policy"


def _literals(text: str, arguments: str | None, names: list[str]) -> dict[str, Any]:
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
    raise InvalidValueError(None, "policy", text, reason)


def as_spec(policy: AnyPolicy, folder: str | os.PathLike[str] = ".") -> PolicySpec:
    """Return a policy as a `PolicySpec`; no object is created yet.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        It stands for no policy.
    """
    if isinstance(policy, PolicySpec):
        return policy
    if isinstance(policy, str):
        return read_policy(policy, folder)
    if isinstance(policy, functools.partial) and not policy.args:
        spec = as_spec(policy.func, folder)
        return PolicySpec(spec.name, {**spec.params, **policy.keywords}, spec.given)
    # What runs is what was imported, and not what is saved until it is asked for its digest.
    remember(getattr(policy, "__module__", ""))
    if isinstance(policy, Policy):
        return PolicySpec(policy.name, _settings_of(policy), policy)
    if isinstance(policy, type) and issubclass(policy, Policy):
        name = getattr(policy, "name", policy.__name__)
        registered = name in policy_names() and not is_own(policy)
        return PolicySpec(name, {}, None if registered else policy)
    if isinstance(policy, type):
        reason = "is no policy: it extends neither online.PriorityPolicy nor online.Policy"
        raise InvalidTypeError(None, "policy", policy.__name__, reason)
    if not callable(policy):
        reason = "is no policy: give a name, 'FILE.py:CLASS', a Policy or its class"
        raise InvalidTypeError(None, "policy", policy, reason)
    name = getattr(policy, "__name__", type(policy).__name__)
    if name.isidentifier():
        return PolicySpec(name, {}, policy)
    made = PolicySpec(name, {}, policy).make()
    return PolicySpec(made.name, _settings_of(made), made)


def _settings_of(policy: Policy) -> dict[str, Any]:
    """Return the parameters of an object that differ from their defaults, where it stores them."""
    found = {}
    for key, parameter in named_parameters(type(policy)).items():
        value = getattr(policy, key, getattr(policy, f"_{key}", None))
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
    spec = as_spec(policy)
    if params and isinstance(spec.given, Policy):
        raise InvalidTypeError(None, "policy", policy, "is an object, which takes no arguments")
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
