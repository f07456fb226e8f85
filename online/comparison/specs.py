"""Policies by name, with their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from instances import InvalidValueError
from online.policy_interface.policy import Policy, make_policy, policy_names, policy_parameters


@dataclass(frozen=True)
class PolicySpec:
    """A policy by registered name, with its parameters."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``name`` or ``name(key=value, ...)``."""
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.name}({settings})" if settings else self.name

    def make(self) -> Policy:
        """A fresh policy.

        Raises
        ------
        UnknownNameError
            No such policy; the message lists those that are.
        InvalidValueError, InvalidTypeError
            A parameter missing, unknown or out of range.
        """
        return make_policy(self.name, **self.params)


def parameterless_policies() -> list[str]:
    """Names of the policies that can be made without parameters, sorted."""
    return [
        name
        for name in policy_names()
        if all(p.default is not p.empty for p in policy_parameters(name).values())
    ]


def policy_specs(policies: Iterable[str | PolicySpec] | None) -> list[PolicySpec]:
    """Check and normalise a choice of policies; None takes every one that needs no parameters.

    Raises
    ------
    UnknownNameError
        No such policy; the message lists those that are.
    InvalidValueError, InvalidTypeError
        Bad parameters, a policy given twice, or none at all.
    """
    if isinstance(policies, (str, PolicySpec)):
        policies = [policies]
    chosen = parameterless_policies() if policies is None else policies
    specs = [spec if isinstance(spec, PolicySpec) else PolicySpec(spec) for spec in chosen]
    seen: set[str] = set()
    for spec in specs:
        spec.make()
        if spec.label in seen:
            raise InvalidValueError(None, "policies", spec.label, "is given twice")
        seen.add(spec.label)
    if not specs:
        raise InvalidValueError(None, "policies", [], "is empty: at least one is needed")
    return specs
