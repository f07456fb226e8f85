"""Instances of the registered generators, as JSON files."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

from _console import check_output, fail, parse_settings, print_table, run, typer

import instances
from instances import Instance, registry
from online.tables import Table


def generate(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Generator; --list shows them.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the first instance; the next take the next seeds.")
    ] = 0,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Parameter of the generator; repeatable."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many instances.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="A .json file, or a folder (made if missing); default: write nothing."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the generators and their parameters.")
    ] = False,
) -> None:
    """Draw instances and write them as JSON. Equal seeds give equal digests."""
    if list_:
        _print(_catalogue())
        return
    if name is None:
        fail("a generator's NAME is missing; --list shows them")
    single = out is not None and out.suffix.lower() == ".json" and not out.is_dir()
    if single and count > 1:
        fail(f"--out {out} is one file for {count} instances; give a folder")
    check_output(out, folder=not single)
    settings = parse_settings(param or [])
    drawn = [_draw(name, k, settings) for k in range(seed, seed + count)]
    paths = [_path(out, name, seed + k, single=single) for k in range(count)]
    if out is not None and not single:
        out.mkdir(exist_ok=True)
    for instance, path in zip(drawn, paths, strict=True):
        if path is not None:
            instances.save(instance, path)
    columns = ["instance", "n", "M", "digest"]
    rows = [[i.name or "", str(len(i)), str(i.memory_limit), i.digest] for i in drawn]
    if out is not None:
        columns.append("file")
        rows = [[*row, str(path)] for row, path in zip(rows, paths, strict=True)]
    _print(
        Table(
            "", tuple(columns), tuple(map(tuple, rows)), frozenset({"instance", "digest", "file"})
        )
    )


def _draw(name: str, seed: int, settings: dict[str, object]) -> Instance:
    drawn = instances.generate(name, seed, **settings)
    if not isinstance(drawn, Instance):
        fail(f"generator {name!r} answers to a policy: it has no instance before a run")
    return drawn


def _path(out: Path | None, name: str, seed: int, *, single: bool) -> Path | None:
    return out if out is None or single else out / f"{name}-seed{seed}.json"


def _catalogue() -> Table:
    rows = []
    for name in instances.generator_names():
        known = instances.generator_parameters(name).values()
        settings = ", ".join(
            p.name if p.default is p.empty else f"{p.name}={p.default}" for p in known
        )
        described = inspect.getdoc(registry._GENERATORS[name]) or ""
        rows.append((name, settings, described.partition("\n")[0]))
    columns = ("generator", "parameters", "what")
    return Table("", columns, tuple(rows), frozenset(columns))


def _print(table: Table) -> None:
    print_table(table.columns, table.rows, table.text_columns, table.to_text())


if __name__ == "__main__":
    run(generate)
