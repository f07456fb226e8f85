"""Options that several subcommands take, each declared once, and the values that they stand for."""

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
"""Time limit of each optimum or bound: what is proved at all mostly takes less."""


def limit_of(seconds: float) -> float | None:
    """Return the limit that --time-limit stands for; None for infinity."""
    return None if seconds == math.inf else seconds


LIMIT_ALIASES = {"e2e": "latency", "ttft": "first_token", "tpot": "time_per_token"}
"""Names that serving benchmarks have for the limits of a `ServiceLevel`."""


def service_level(texts: Sequence[str] | None) -> ServiceLevel | None:
    """Return the service level that the values of --slo make together; None without any.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        Not of the form NAME=TIME, a limit given twice, or a time that is not a number above 0.
    UnknownNameError
        Another name than those of a `ServiceLevel` and their aliases.
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
    values: dict[str, Any] = {name: parse_value(text) for name, text in limits.items()}
    return ServiceLevel(**values)


def chosen_policies(
    texts: Sequence[Any] | None, folder: str | os.PathLike[str] = ".", *, deadlines: bool = False
) -> list[PolicySpec]:
    """Return the policies named, see `PolicySpec.read`, or all that need no parameters.

    Those that need a service level are among all if there are ``deadlines``.
    """
    named = [PolicySpec.of(str(text), folder) for text in texts or ()]
    return policy_specs(named or None, deadlines=deadlines)
