"""Options that several subcommands take, each declared once, and what they stand for."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from instances import ServiceLevel, UnknownNameError
from instances.settings import parse_settings
from instances.user_modules import import_sources
from online.policy_interface.specs import PolicySpec, policy_specs, read_policy

from .json_output import check_json

DEFAULT_SECONDS = 60.0
"""Time limit of each optimum or bound: most of what is proved at all is proved in less."""

OWN_METAVAR = "FILE.py:NAME"
"""Bounds: functions in a file."""

POLICY_METAVAR = "NAME[:KEY=VALUE,...] or FILE.py:CLASS"

Policies = Annotated[
    list[str] | None,
    typer.Option(
        metavar=POLICY_METAVAR,
        help="Policy; repeatable. Registered, or of a file or module: 'my.py:Mine(alpha=0.2)'. "
        "Default: all registered that need no parameters.",
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE or FILE.py",
        help="Import it first: it registers policies, generators or bounds; repeatable.",
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=0,
        help=f"Seconds for each optimum or bound; default: {DEFAULT_SECONDS:g}. inf: until it is "
        "proved or at its end.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads of the solver; default: its choice.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")]
LevelTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--slo",
        metavar="NAME=TIME",
        help="Service level: the most time, in seconds or rounds, that a request on time may take. "
        "latency (e2e), first_token (ttft) or time_per_token (tpot); repeatable, all must hold.",
    ),
]


def importing(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command the option --import: what it names is imported before anything is done.

    What that prints must not stand in JSON on standard output, so --json is looked at before.
    """

    @functools.wraps(command)
    def imported(*arguments: Any, imports: Imports = None, **options: Any) -> int | None:
        check_json(options.get("json_file"))
        import_sources(imports or [])
        return command(*arguments, **options)

    own = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        "imports", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Imports
    )
    parameters = [*own.parameters.values(), option]
    imported.__annotations__ = {one.name: one.annotation for one in parameters}
    imported.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return imported


def limit_of(given: float | None, default: float = DEFAULT_SECONDS) -> float | None:
    """Return the limit that an option stands for; None where it was lifted."""
    limit = default if given is None else given
    return None if limit == math.inf else limit


def limit_note(
    given: float | None, stop_reason: str | None, default: float = DEFAULT_SECONDS
) -> str | None:
    """Say that a limit ended a search which nobody gave."""
    if given is not None or stop_reason != "time-limit":
        return None
    return f"{default:g} s by default, which ended it; --time-limit inf lifts it"


LIMIT_ALIASES = {"e2e": "latency", "ttft": "first_token", "tpot": "time_per_token"}
"""Other names that `service_level` takes for the limits of a `ServiceLevel`."""


def service_level(texts: Sequence[str] | None) -> ServiceLevel | None:
    """Return the service level that the `LevelTexts` make together; None without any.

    Limits are ``latency=30``, ``first_token=1`` and ``time_per_token=0.1``, or by the names of
    serving benchmarks ``e2e``, ``ttft`` and ``tpot``.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        Not of the form NAME=TIME, a limit given twice, or a time that is not a number above 0.
    UnknownNameError
        Another name.
    """
    if not texts:
        return None
    split = (text.partition("=") for text in texts)
    own = ("".join([LIMIT_ALIASES.get(name, name), *rest]) for name, *rest in split)
    limits, known = parse_settings(own, "--slo"), list(LIMIT_ALIASES.values())
    for name in limits:
        if name not in known:
            raise UnknownNameError("limit of --slo", name, [*known, *LIMIT_ALIASES])
    return ServiceLevel(**limits)


def chosen_policies(texts: Sequence[str] | None, *, deadlines: bool = False) -> list[PolicySpec]:
    """Return the policies named, see `read_policy`, or all that need no parameters.

    Those that need a service level are among all if there are ``deadlines``.
    """
    named = [read_policy(text) for text in texts] if texts else None
    return policy_specs(named, deadlines=deadlines)
