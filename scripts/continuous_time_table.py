"""[J25] Table 1 in continuous time: mean latencies beside the paper's."""

from __future__ import annotations

from typing import Annotated

import _checkout  # noqa: F401
import typer

from instances.batch_time import LLAMA_2_70B_2XA100, parse_batch_time
from online.commands.console import run
from studies.reproduction.j25.table_1 import latency_table

WHY = (
    "Lengths are synthetic: log-normal with the mean and median word counts of [J25] Section 5.2. "
    "The paper does\nnot say which batch times its simulator had, and seconds depend on them most."
)


def continuous_time_table(
    requests: Annotated[int, typer.Option(min=1, help="Requests of a run.")] = 1000,
    rate: Annotated[float, typer.Option(min=0.001, help="Arrivals a second.")] = 50.0,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, .. of every line.")] = 50,
    batch_time: Annotated[
        str, typer.Option(help="Preset, or affine:d0,d1,d2.")
    ] = LLAMA_2_70B_2XA100.name,
) -> None:
    """Print average, deviation, maximum and minimum of mean latency, and the paper's average."""
    seconds = ("average, s", "std_dev, s", "max, s", "min, s", "paper_average, s")
    print(" | ".join(("algorithm", *seconds, "evictions", "failed")))
    time, _ = parse_batch_time(batch_time)
    for result in latency_table(requests, rate, seeds, batch_time=time):
        print(
            f"{result.line.label} | {result.average:.3f} | {result.standard_deviation:.3f} | "
            f"{result.largest:.3f} | {result.smallest:.3f} | {result.line.paper[0]:.3f} | "
            f"{result.evictions:.1f} | {result.failed}/{result.seeds}",
            flush=True,
        )
    print(WHY)


if __name__ == "__main__":
    run(continuous_time_table)
