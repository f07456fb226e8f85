"""The subcommands as one command line, each loaded when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from .console import guarded, run, run_typer

NESTED = ("library leaderboard",)
"""Subcommands of two words: with options of their own, beside those of the first word."""


class _Subcommands(TyperGroup):
    """Lists what is known of each subcommand, and loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None or stub is None:
            return name, stub, rest
        if rest and (nested := f"{name} {rest[0]}") in NESTED:
            name, rest = nested, rest[1:]
        alone = typer.Typer(add_completion=False)
        alone.command(name)(guarded(_command(name)))
        return name, typer.main.get_command(alone), rest


def run_application(program: str, subcommands: Mapping[str, str]) -> NoReturn:
    """Run the command line, whose subcommands are given with a line about each."""
    application = typer.Typer(cls=_Subcommands, pretty_exceptions_enable=False)
    for name, about in subcommands.items():
        application.command(name, help=about)(_stub)
    run_typer(application, prog_name=program)


def run_alone(name: str) -> NoReturn:
    """Run a subcommand as a command line of its own."""
    run(_command(name))


def _stub() -> None: ...


def _command(name: str) -> Callable[..., int | None]:
    """The function of a subcommand: module and function are called as it is."""
    name = name.replace("-", "_").replace(" ", "_")
    found: Callable[..., int | None] = getattr(import_module(f"{__package__}.{name}"), name)
    return found
