"""Processor time of each policy on conversation-like lengths, and of the plain pseudocode."""

from __future__ import annotations

import datetime
import math
import os
import platform
import time
from collections.abc import Sequence
from typing import Annotated

import _checkout  # noqa: F401
import numpy as np
import typer

import online
from instances import Instance, InvalidValueError, Workload
from instances.batch_time import parse_batch_time
from online.commands.console import fail, run
from online.policy_interface.predictions import BucketPredictions, PredictionModel
from online.policy_interface.specs import parameterless_policies

MEMORY_LIMIT = 16_492
LONGEST = 1000
# Tables of n x batch size x M cells: a hundred requests is their scale, larger ones are refused.
SMALL_ONLY = {"sorted-f-dp", "sorted-f-scaled-dp"}
SMALL = 100
NEED_A_SOLVER = {"sorted-lp", "lp-swap"}
PAUSING = {"wait", "nested-wait", "sarathi", "sglang", "tensorrt-llm", "vllm", "vllm-v0"}
INTERVALS = {"a-max", "a-min", "a-ell", "two-point-switch"}
# In continuous time few requests wait at once, so that tables and linear programs stay small.
CONTINUOUS = parameterless_policies()
DEFAULTS = [name for name in parameterless_policies() if name not in NEED_A_SOLVER | PAUSING]


def conversation_like(count: int, seed: int = 0) -> Instance:
    """Log-normal lengths with the medians and means of [J25] Section 5.2: 11 and 41, 45 and 85."""
    rng = np.random.default_rng(seed)
    prompts = np.rint(rng.lognormal(math.log(11), 1.6, count)).clip(1, 2000).astype(int)
    outputs = np.rint(rng.lognormal(math.log(45), 1.13, count)).clip(1, LONGEST).astype(int)
    return Instance.from_arrays(prompts, outputs, memory_limit=MEMORY_LIMIT)


def plain_shortest_first(rows: Sequence[tuple[int, int]], limit: int) -> int:
    """[J25] Algorithm 1 round by round, checking every completion round; total latency."""
    waiting = sorted(range(len(rows)), key=lambda i: (rows[i][1], i))
    active: list[tuple[int, int, int]] = []
    now = total = 0
    while waiting or active:
        active = [run for run in active if run[0] + run[2] > now]
        while waiting:
            prompt, output = rows[waiting[0]]
            trial = [*active, (now, prompt, output)]
            ends = {start + length for start, _, length in trial}
            if any(
                sum(s + end - start for start, s, length in trial if start + length >= end) > limit
                for end in ends
            ):
                break
            active = trial
            total += now + output
            waiting.pop(0)
        now += 1
    return total


def seconds(instance: Instance | Workload, name: str) -> tuple[float, online.Run]:
    """Processor time of one run; interval policies are told ten buckets."""
    model: PredictionModel | None = BucketPredictions() if name in INTERVALS else None
    begun = time.process_time()
    record = online.simulate(instance, name, predictions=model)
    return time.process_time() - begun, record


def exponent(sizes: Sequence[int], taken: Sequence[float]) -> float:
    """b of the least-squares fit taken = a sizes^b, in logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(np.maximum(taken, 1e-6)), 1)
    return float(slope)


def versions() -> str:
    """Describe the versions that the figures depend on."""
    return (
        f"{datetime.date.today()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"{platform.machine()}, {os.cpu_count()} cores, processor time of one thread"
    )


def time_policy(
    name: str, sizes: Sequence[int], rate: float, batch_time: str | None = None
) -> float:
    """A line for each size, and how time grows; all of it is returned.

    ``rate`` is of arrivals in continuous time, with a batch time.
    """
    clock = None if batch_time is None else parse_batch_time(batch_time)[0]
    done, taken = [], []
    for size in sizes:
        instance: Instance | Workload = conversation_like(size)
        if clock is not None:
            instance = Workload.with_arrivals(conversation_like(size), rate, batch_time=clock)
        try:
            elapsed, record = seconds(instance, name)
        except InvalidValueError as error:
            print(f"{name} | {size} | refused | - | - | {error}", flush=True)
            continue
        done.append(size)
        taken.append(elapsed)
        mean = f"{record.mean_latency:.1f}" if record.status == "completed" else "-"
        print(
            f"{name} | {size} | {elapsed:.2f} | {record.decisions} | {mean} | {record.status}",
            flush=True,
        )
    if len(taken) > 1:
        print(f"{name} | grows as n^{exponent(done, taken):.2f}")
    return sum(taken)


def compare_with_plain(sizes: Sequence[int]) -> None:
    """MC-SF here and from its pseudocode: equal total latency, times and growth."""
    slow, fast = [], []
    for size in sizes:
        instance = conversation_like(size)
        elapsed, record = seconds(instance, "mc-sf")
        rows = [(request.prompt_length, request.output_length) for request in instance]
        begun = time.process_time()
        total = plain_shortest_first(rows, MEMORY_LIMIT)
        slow.append(time.process_time() - begun)
        fast.append(elapsed)
        if total != record.total_latency:
            raise AssertionError(f"{total} differs from {record.total_latency}")
        print(
            f"mc-sf at n = {size}: {elapsed:.3f} s; plain rendering, same total latency "
            f"{total}: {slow[-1]:.2f} s, {slow[-1] / elapsed:.0f} times",
            flush=True,
        )
    if len(sizes) > 1:
        print(
            f"mc-sf grows as n^{exponent(sizes, fast):.2f}, "
            f"the plain rendering as n^{exponent(sizes, slow):.2f}"
        )


def benchmark_simulator(
    requests: Annotated[
        list[int] | None, typer.Option(min=1, help="n; repeatable. Default: 1000, 10000.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Policy; repeatable. Default: all without a solver.")
    ] = None,
    plain: Annotated[
        list[int] | None,
        typer.Option(min=1, help="n for the plain rendering; repeatable. Default: 100, 200, 300."),
    ] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Poisson arrivals and a batch time.")
    ] = False,
    batch_time: Annotated[
        list[str] | None,
        typer.Option(help="Preset or affine:d0,d1,d2, continuous; repeatable, each in turn."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.001, help="Arrivals a second, continuous.")] = 8.0,
) -> None:
    """Time every policy, tell how time grows with n, and compare MC-SF with its pseudocode.

    In continuous time the sizes are 1,000, 10,000 and 100,000 unless given, batches take as long
    as Llama-2-70B's on two A100s, and the comparison with the pseudocode is left out. Of several
    batch times each is compared with the first.
    """
    known = CONTINUOUS if continuous else DEFAULTS
    unknown = sorted(set(policy or []) - set(known))
    if unknown:
        fail(f"unknown policy {unknown[0]!r}; known: {', '.join(known)}")
    default_sizes = [1000, 10_000, 100_000] if continuous else [1000, 10_000]
    sizes = sorted(requests or default_sizes)
    print(versions())
    # Code loads and caches fill on the first run: it is nobody's time.
    seconds(conversation_like(100), "mc-sf")
    print("policy | n | seconds | decisions | mean_latency | status")
    for name in policy or known:
        if not continuous:
            time_policy(name, [SMALL, *sizes] if name in SMALL_ONLY else sizes, rate)
            continue
        first, *others = batch_time or ["llama-2-70b-2xa100"]
        taken = time_policy(name, sizes, rate, first)
        for other in others:
            times = time_policy(name, sizes, rate, other) / taken
            print(f"{name} | {other} takes {times:.2f} times as long as {first}", flush=True)
    if not continuous:
        compare_with_plain(sorted(plain or [100, 200, 300]))


if __name__ == "__main__":
    run(benchmark_simulator)
