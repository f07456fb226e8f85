"""The subcommands as one command line, each loaded when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from .console import guarded, run, run_typer


class _Subcommands(TyperGroup):
    """Typer group that lists all subcommands, and loads only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None or stub is None:
            return name, stub, rest
        alone = typer.Typer(add_completion=False)
        alone.command(name)(guarded(_command(name)))
        return name, typer.main.get_command(alone), rest


def run_application(program: str, subcommands: Mapping[str, str]) -> NoReturn:
    """Run the command line; ``subcommands`` maps each name to a line of help."""
    application = typer.Typer(cls=_Subcommands, pretty_exceptions_enable=False)
    for name, about in subcommands.items():
        application.command(name, help=about)(_stub)
    run_typer(application, prog_name=program)


def run_alone(name: str) -> NoReturn:
    """Run one subcommand as a command line of its own."""
    run(_command(name))


def _stub() -> None: ...


def _command(name: str) -> Callable[..., int | None]:
    """Return the function of a subcommand, which has the name of its module."""
    name = name.replace("-", "_")
    found: Callable[..., int | None] = getattr(import_module(f"{__package__}.{name}"), name)
    return found
