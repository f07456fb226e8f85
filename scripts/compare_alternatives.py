"""Compare this package with what people would use instead: equal requests, one run."""

from __future__ import annotations

import json
import math
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import _checkout
import typer

import hindsight
import online
from hindsight.integer_program.highs import fresh_solver
from instances import Instance, Workload, generate
from instances.files import write_atomically
from online.commands.console import check_output, print_table, run, writing
from online.runtime.table import Table

COLUMNS = ("requests", "tool", "seconds", "processor_s", "upper", "lower", "proved")
RATE = 8
"""Requests a second of the simulated log."""
PROGRAMS = _checkout.ROOT / "scripts" / "studies" / "benchmarks"
Answer = dict[str, Any]


def timed(work: Callable[[], Answer]) -> Answer:
    """Add the seconds of the clock and of the processor that ``work`` took to its answer."""
    began, worked = time.perf_counter(), time.process_time()
    answer = work()
    spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - worked}
    return {**spent, **answer}


def by_this_package(instance: Instance, time_limit: float) -> Answer:
    """Solve with `hindsight.solve`, on one thread."""
    result = hindsight.solve(instance, time_limit, threads=1)
    return {"upper": result.upper_bound, "lower": result.lower_bound}


def by_hand(instance: Instance, time_limit: float) -> Answer:
    """Solve the dense time-indexed program in HiGHS, on one thread; building it is not timed.

    Its horizon is the one that this package proves, shorter than one found by hand.
    """
    solver: Any = fresh_solver({"threads": 1, "time_limit": time_limit})
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.mps"
        hindsight.export_model(hindsight.build_model(instance, formulation="dense"), path)
        solver.readModel(path)

    def work() -> Answer:
        solver.run()
        info = solver.getInfo()
        found = math.isfinite(info.objective_function_value) and info.primal_solution_status == 2
        lower = info.mip_dual_bound
        return {
            "upper": round(info.objective_function_value) if found else None,
            "lower": math.ceil(lower - 1e-6) if math.isfinite(lower) else None,
        }

    return timed(work)


def by_program(python: Path, program: str, *arguments: object, given: str = "") -> Answer:
    """Run one of ``studies.benchmarks`` with another environment's Python; it times itself."""
    finished = subprocess.run(
        [python, PROGRAMS / program, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError(f"{program} failed: {lines[-1]}")
    answer: Answer = json.loads(finished.stdout.splitlines()[-1])
    return answer


def by_pyjobshop(python: Path, held: str, instance: Instance, time_limit: float) -> Answer:
    """Solve with PyJobShop; memory is ``growing``, or ``constant`` at the peak of each request."""
    requests = [[one.prompt_length, one.output_length, one.arrival_time] for one in instance]
    given = json.dumps({"memory_limit": int(instance.memory_limit), "requests": requests})
    return by_program(python, "job_shop.py", time_limit, held, given=given)


def solvers(pyjobshop: Path | None) -> dict[str, Callable[[Instance, float], Answer]]:
    """Name the tools that minimise."""
    found: dict[str, Callable[[Instance, float], Answer]] = {
        "hindsight.solve": lambda instance, limit: timed(lambda: by_this_package(instance, limit)),
        "program in HiGHS": by_hand,
    }
    if pyjobshop is not None:
        for held in ("growing", "constant"):
            found[f"PyJobShop, {held}"] = partial(by_pyjobshop, pyjobshop, held)
    return found


def by_dynamo(python: Path, work: Workload) -> Answer:
    """Time Dynamo's replay of the workload."""
    lines, blocks = [], 0
    requests = zip(
        work.arrival_times.tolist(),
        work.prompt_lengths.tolist(),
        work.output_lengths.tolist(),
        strict=True,
    )
    for arrival, prompt, output in requests:
        hashes = list(range(blocks, blocks + math.ceil(prompt / 512)))
        blocks += len(hashes)
        line = {
            "timestamp": int(1000 * arrival),
            "input_length": prompt,
            "output_length": output,
            "hash_ids": hashes,
        }
        lines.append(json.dumps(line))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mooncake.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        return by_program(python, "dynamo_replay.py", path, work.memory_limit)


def by_blis(folder: Path, work: Workload) -> Answer:
    """Time ``blis run`` on as many requests of the same mean lengths, which it draws itself."""
    lengths = (work.prompt_lengths.mean(), work.output_lengths.mean())
    command = ["./blis", "run", "--model", "qwen/qwen3-14b", "--hardware", "H100", "--tp", "1"]
    command += ["--rate", str(RATE), "--num-requests", str(len(work.ids))]
    command += ["--prompt-tokens", f"{lengths[0]:.0f}", "--output-tokens", f"{lengths[1]:.0f}"]
    command += ["--total-kv-blocks", str(work.memory_limit // 16)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    done = json.loads(finished.stdout[finished.stdout.index("{") :])["completed_requests"]
    return {"seconds": time.perf_counter() - began, "processor": processor, "completed": done}


def by_own_simulator(work: Workload) -> Answer:
    """Simulate the vLLM scheduler on the workload, in seconds."""
    run = online.simulate(work, "vllm", batch_time=online.AffineTime(0.05, 0.00028, 1.1e-7))
    return {"completed": int((run.completion_times >= 0).sum())}


def row_of(requests: object, tool: str, answer: Answer) -> tuple[str, ...]:
    """Make a row of the table."""
    upper, lower = answer.get("upper"), answer.get("lower")
    bounds = ("" if bound is None else str(bound) for bound in (upper, lower))
    proved = (
        "" if "completed" in answer else "yes" if upper is not None and upper == lower else "no"
    )
    spent = (f"{answer['seconds']:.2f}", f"{answer['processor']:.2f}")
    return (str(requests), tool, *spent, *bounds, proved)


def compare_alternatives(
    requests: Annotated[
        list[int] | None, typer.Option("-n", "--requests", min=1, help="Repeatable.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Instances of each size.")] = 1,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a tool and instance.")] = 60,
    peers: Annotated[
        Path | None, typer.Option(help="Python of an environment with PyJobShop and Dynamo.")
    ] = None,
    blis: Annotated[Path | None, typer.Option(help="Checkout of BLIS with ./blis built.")] = None,
    simulated: Annotated[int, typer.Option(min=1, help="Requests of the simulators.")] = 1000,
    out: Annotated[Path | None, typer.Option(help="Write the rows as CSV or Markdown.")] = None,
) -> None:
    """Solve equal instances with each tool and time each simulator; leave out what is not named."""
    check_output(out, (".csv", ".md"))
    hindsight.solve(generate("arrival-model-1", n=3))  # loads what is compiled
    rows = []
    for n in requests or [10, 15, 20]:
        for seed in range(count):
            instance = generate("arrival-model-1", seed=seed, n=n)
            for name, solve in solvers(peers).items():
                rows.append(row_of(f"{n}, seed {seed}", name, solve(instance, time_limit)))
                print(*rows[-1], sep="  ", flush=True)
    work = generate("conversations", seed=0, n=simulated, rate=RATE)
    by_own_simulator(generate("conversations", n=10, rate=RATE))
    rows.append(row_of(simulated, "online.simulate", timed(lambda: by_own_simulator(work))))
    if peers is not None:
        rows.append(row_of(simulated, "Dynamo's replay", by_dynamo(peers, work)))
    if blis is not None:
        rows.append(row_of(simulated, "BLIS", by_blis(blis, work)))
    table = Table("", COLUMNS, tuple(rows), frozenset({"requests", "tool", "proved"}))
    if out is not None:
        with writing():
            write_atomically(out, table.to_csv() if out.suffix == ".csv" else table.to_markdown())
    print_table(table, wide=True)


if __name__ == "__main__":
    run(compare_alternatives)
