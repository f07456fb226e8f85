"""Fit batch times to measured rounds, and tell how far each is off, regime by regime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer

from instances.arrays import FloatArray
from instances.batch_time import preset
from online.batch_time.fitting import (
    Fit,
    entries,
    fit_affine_time,
    fit_tiled_time,
    held_out,
)
from online.batch_time.measured_tables import FORM, PREFIX, measured_steps, read_batch_time
from online.batch_time.measurements import Measurements, RegimeError, errors_by_regime, rounds_of
from online.commands.console import Wide, fail, print_table, run, say
from online.runtime.table import Table

Fitting = Callable[[Measurements], Fit[Any]]


def fit_batch_time(
    rounds: Annotated[
        Path | None,
        typer.Argument(
            help="CSV of measured rounds: tokens,kv_tokens,seconds, and decodes, prompt_squares, "
            "prompt_past where they are known."
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help=f"Rounds that last as a preset says; or steps of the measured tables of {FORM}.",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=2, help="Entries of a table, at most.")] = 64,
    tile: Annotated[int, typer.Option(min=1, help="Tokens of a table's tile.")] = 8,
    batch_time: Annotated[
        list[str] | None,
        typer.Option(help="Preset, affine:d0,d1,d2 or tables to compare as it is; repeatable."),
    ] = None,
    wide: Wide = False,
) -> None:
    """Print the error of each batch time, by regime.

    Errors are means of |predicted - measured| / measured, with the mean of the signed shares in
    brackets. Every round is predicted by a fit to four fifths of the others, without it.
    """
    if (rounds is None) == (of is None):
        fail("give a file of rounds or --of, and not both")
    data = _data(rounds, of or "")
    fits: dict[str, Fitting] = {
        "affine": lambda some: fit_affine_time(some, relative=True),
        "table": lambda some: fit_tiled_time(some, entries(data, steps, tile), tile, relative=True),
    }
    columns: dict[str, FloatArray] = {}
    for name in batch_time or []:
        columns[name] = data.predicted(read_batch_time(name)[0])
    for kind, fit in fits.items():
        columns[f"{kind} fit"] = held_out(fit, data)
    errors = {name: errors_by_regime(data, predicted) for name, predicted in columns.items()}
    regimes = next(iter(errors.values()), ())
    table = Table(
        "",
        ("regime", "rounds", *(f"{name}, % off" for name in columns)),
        tuple(
            (one.regime, str(one.rows), *(_told(each[place]) for each in errors.values()))
            for place, one in enumerate(regimes)
        ),
        frozenset(["regime"]),
    )
    print_table(table, wide=wide)
    for kind, fit in fits.items():
        say(f"{kind}: {fit(data).model}")


def _data(rounds: Path | None, of: str) -> Measurements:
    if rounds is not None:
        return Measurements.read(rounds)
    return measured_steps(of) if of.startswith(PREFIX) else rounds_of(preset(of).batch_time)


def _told(one: RegimeError) -> str:
    return f"{100 * one.error:.1f} ({100 * one.bias:+.1f})"


if __name__ == "__main__":
    run(fit_batch_time)
