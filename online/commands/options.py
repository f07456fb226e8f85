"""Options that several subcommands have, and functions that convert their values."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from typing import Any

from instances import InvalidValueError, ServiceLevel, UnknownNameError
from instances.settings import parse_texts, parse_value
from online.policy_interface.specs import PolicySpec, policy_specs

DEFAULT_SECONDS = 60.0
"""Default of --time-limit, in seconds. Most proofs of an optimum that succeed take less."""


def limit_of(seconds: float) -> float | None:
    """Return the value of --time-limit in seconds, or None (no limit) for infinity."""
    return None if seconds == math.inf else seconds


LIMIT_ALIASES = {"e2e": "latency", "ttft": "first_token", "tpot": "time_per_token"}
"""Names that serving benchmarks use for the limits of a `ServiceLevel`. --slo accepts both."""


def service_level(texts: Sequence[str] | None) -> ServiceLevel | None:
    """Return the service level with the limits given by options --slo, or None without any.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A value is not of the form NAME=TIME, a limit is given twice, or a time is not a number
        above 0.
    UnknownNameError
        A name is not a limit of `ServiceLevel` or one of `LIMIT_ALIASES`.
    """
    if not texts:
        return None
    split = (text.partition("=") for text in texts)
    own = ("".join([LIMIT_ALIASES.get(name, name), *rest]) for name, *rest in split)
    limits, known = parse_texts(own, "--slo"), list(LIMIT_ALIASES.values())
    for name in limits:
        if re.match(r"p\d", name):
            reason = "is not a limit of a request: a p99 TTFT of 2 s is ttft=2 kept by 99 % of them"
            raise InvalidValueError(None, "--slo", name, reason)
        if name not in known:
            raise UnknownNameError("limit of --slo", name, [*known, *LIMIT_ALIASES])
        if re.search(r"[0-9] *m?s$", limits[name]):
            reason = "has a unit: give the number of seconds alone, as in ttft=2"
            raise InvalidValueError(None, "--slo", limits[name], reason)
    values: dict[str, Any] = {name: parse_value(text) for name, text in limits.items()}
    return ServiceLevel(**values)


def chosen_policies(
    texts: Sequence[Any] | None, folder: str | os.PathLike[str] = ".", *, deadlines: bool = False
) -> list[PolicySpec]:
    """Return the policies named by the options --policy, or a default list.

    `PolicySpec.of` describes the texts. Paths in them are relative to ``folder``. The default list
    has all policies that need no parameters. It includes policies that need a service level only
    if ``deadlines`` is True.
    """
    named = [PolicySpec.of(str(text), folder) for text in texts or ()]
    return policy_specs(named or None, deadlines=deadlines)
