"""The subcommands as one command line, each loaded when it is called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from .console import run_application


class _Subcommands(TyperGroup):
    """Typer group that lists all subcommands, and loads only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None or stub is None:
            return name, stub, rest
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        # The function of a subcommand has the name of its module.
        alone.command(name)(getattr(import_module(f"{__package__}.{name}"), name))
        return name, typer.main.get_command(alone), rest


def run_subcommands(program: str, subcommands: Mapping[str, str]) -> NoReturn:
    """Run the command line; ``subcommands`` maps each name to a line of help."""
    application = typer.Typer(cls=_Subcommands, rich_markup_mode=None)
    for name, about in subcommands.items():
        application.command(name, help=about)(_stub)
    if f"_{program.replace('-', '_').upper()}_COMPLETE" in os.environ:
        application(prog_name=program)
    run_application(application, program)


def _stub() -> None: ...
