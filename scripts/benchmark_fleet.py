"""Processor time of a fleet, held against single runs of the same requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import _checkout  # noqa: F401
import numpy as np
import typer
from benchmark_simulator import conversation_like, versions

import online
from instances import PoissonArrivals, Workload
from instances.batch_time import LLAMA_2_70B_2XA100, BatchTime, parse_batch_time
from online.commands.console import run


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of an action, and what it returns."""
    begun = time.process_time()
    found = action()
    return time.process_time() - begun, found


def run_apart(parts: list[Workload], rule: str, clock: BatchTime) -> list[online.Run]:
    """Run a policy on each part by itself."""
    return [online.simulate(part, rule, batch_time=clock) for part in parts]


def benchmark_fleet(
    requests: Annotated[int, typer.Option(min=1, help="Requests of each replica.")] = 10_000,
    replicas: Annotated[int, typer.Option(min=2, help="K.")] = 8,
    rate: Annotated[float, typer.Option(min=0.001, help="Arrivals a second and replica.")] = 8.0,
    policy: Annotated[
        list[str] | None, typer.Option(help="Policy; repeatable. Default: vllm, mc-sf.")
    ] = None,
    router: Annotated[list[str] | None, typer.Option(help="Router; repeatable. Default: all.")] = (
        None
    ),
    repeats: Annotated[int, typer.Option(min=1, help="Least time of so many.")] = 1,
) -> None:
    """Time fleets under every router, and `simulate` on the requests of each replica."""
    clock = parse_batch_time(LLAMA_2_70B_2XA100.name)[0]
    lengths = conversation_like(requests * replicas).with_replicas(replicas)
    fleet = Workload.with_arrivals(lengths, PoissonArrivals(rate * replicas))
    print(versions())
    print("policy | router | fleet, s | single runs, s | ratio | mean latency, s")
    for rule in policy or ["vllm", "mc-sf"]:
        for name in router or online.router_names():
            together, apart = [], []
            for _ in range(repeats):
                together_run = partial(online.simulate_fleet, fleet, rule, name, batch_time=clock)
                taken, found = seconds(together_run)
                together.append(taken)
                parts = [
                    fleet.alone(np.flatnonzero(found.assignment == k)) for k in range(replicas)
                ]
                taken, alone = seconds(partial(run_apart, parts, rule, clock))
                apart.append(taken)
                assert sum(one.total_latency for one in alone) == found.total_latency
            least, single = min(together), min(apart)
            mean = found.mean_latency
            line = f"{least:.2f} | {single:.2f} | {least / single:.3f} | {mean:.3f}"
            print(f"{rule} | {name} | {line}", flush=True)


if __name__ == "__main__":
    run(benchmark_fleet)
