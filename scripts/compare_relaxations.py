"""Table of sorted-lp and lp-swap on the plain and on the strengthened relaxation."""

from __future__ import annotations

from typing import Annotated

import _checkout  # noqa: F401
import typer

from online.commands.console import run
from studies.reproduction.w25.relaxation_comparison import (
    FAMILIES,
    PolicyComparison,
    compare_relaxations,
)


def compare(
    family: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(FAMILIES)}; repeatable. Default: all.")
    ] = None,
    requests: Annotated[
        list[int] | None, typer.Option(min=1, help="n; repeatable. Default: 10, 15, 25.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, .. of every line.")] = 10,
) -> None:
    """Print mean ratios to the bound of the strengthened relaxation, a line a policy."""
    lines = compare_relaxations(family or list(FAMILIES), requests or [10, 15, 25], seeds)
    print(
        "family | n | policy | plain | strengthened | "
        "strengthened/plain - 1 | standard_error | better/equal/worse"
    )
    for line in lines:
        start = f"{line.family} | {line.requests} | {line.policy}"
        if not isinstance(line, PolicyComparison):
            print(f"{start} | {line.mean_ratio:.4f} | | | |", flush=True)
            continue
        change, error = line.difference
        equal = seeds - line.better - line.worse
        print(
            f"{start} | {sum(line.plain) / seeds:.4f} | {sum(line.strengthened) / seeds:.4f} | "
            f"{100 * change:+.2f} % | {100 * error:.2f} % | {line.better}/{equal}/{line.worse}",
            flush=True,
        )


if __name__ == "__main__":
    run(compare)
