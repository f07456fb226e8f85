"""Hold batch times of NVIDIA's measured tables against servers measured with them.

Needs the extra ``aiconfigurator``, whose package holds `silicon_sample.csv`: time per output token
of real servers, each with as many requests at once as it says. What is predicted is a mean over
the steps in which such a server serves every request once: a request emits osl tokens, prompts are
processed one after the other in steps of at most `BUDGET` tokens, and each step also decodes the
other requests.
"""

from __future__ import annotations

import csv
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module, resources
from typing import Annotated, Any

import _checkout  # noqa: F401
import numpy as np
import typer

from instances.batch_time import BatchTime
from online.batch_time.fitting import fit_affine_time, fit_tiled_time
from online.batch_time.measured_tables import TABLE, TILE, steps_of
from online.batch_time.measurements import round_of
from online.commands.console import Wide, print_table, run, say
from online.runtime.table import Table

BUDGET = 8192
"""Tokens of a step: the default of the engines on GPUs of this size."""

PLACE = ("model_path", "system", "backend")
NUMBERS = {
    "tp_size": "tp_size",
    "attention_dp_size": "attention_dp_size",
    "moe_tp_size": "moe_tp_size",
    "moe_ep_size": "moe_ep_size",
}
MODES = ("gemm_quant_mode", "moe_quant_mode")
FORMER_NAMES = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
}
"""Models of the measured rows by the name that the tables have for them."""

Row = Mapping[str, str]
Step = Callable[[int, int, int], float]
"""Milliseconds of a step: prompt tokens, requests that decode, KV tokens of each."""


def compare_measured_tables(
    model: Annotated[str, typer.Option(help="Only models whose name has this text.")] = "",
    wide: Wide = False,
) -> None:
    """Print how far predicted times per output token are off, by GPU and engine."""
    logging.disable(logging.CRITICAL)
    package = resources.files("aiconfigurator_core")
    with (package / "systems" / "silicon_sample.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if model in row["model_path"]]
    known = {one.name for one in (package / "model_configs").iterdir()}
    found: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    refused: dict[str, int] = defaultdict(int)
    for row in rows:
        if row["mode"] != "agg":
            refused["disaggregated"] += 1
            continue
        file = _name(row).replace("/", "--") + "_config.json"
        if file not in known:
            refused["no configuration of the model"] += 1
            continue
        try:
            predicted = [_per_token(row, step) for step in _steps(_configuration(row))]
        except Exception as error:  # noqa: BLE001 (the package's errors are of many kinds)
            refused[str(error)[:60]] += 1
            continue
        found[row["system"], row["backend"]].append(
            [one / float(row["silicon_tpot_ms"]) - 1 for one in predicted]
        )
    if found:
        found["all", ""] = [one for shares in list(found.values()) for one in shares]
    names = ("tables", "table fit", "affine fit")
    table = Table(
        "Time per output token: median |error|, and the median with its sign, per cent",
        ("GPU", "engine", "rows", *(f"{name}, % off" for name in names)),
        tuple(
            (*place, str(len(shares)), *_told(np.array(shares)))
            for place, shares in sorted(found.items())
        ),
        frozenset(["GPU", "engine"]),
    )
    print_table(table, wide=wide)
    say(f"{len(rows)} rows, not compared: {dict(refused)}")


def _told(shares: Any) -> Iterator[str]:
    for column in shares.T:
        yield f"{100 * np.median(np.abs(column)):.1f} ({100 * np.median(column):+.1f})"


def _name(row: Row) -> str:
    return FORMER_NAMES.get(row["model_path"], row["model_path"])


def _configuration(row: Row) -> tuple[tuple[str, Any], ...]:
    model = _name(row)
    settings: dict[str, Any] = {"model_path": model, **{name: row[name] for name in PLACE[1:]}}
    for name, column in NUMBERS.items():
        if row[column] not in ("", "0"):
            settings[name] = int(row[column])
    if "Llama" in model or model == "Qwen/Qwen3-32B":
        # They have no experts, whatever their rows say.
        settings = {name: one for name, one in settings.items() if not name.startswith("moe")}
    for name in MODES:
        if row[name] and ("moe" not in name or "moe_tp_size" in settings):
            settings[name] = row[name]
    return tuple(settings.items())


@cache
def _steps(configuration: tuple[tuple[str, Any], ...]) -> list[Step]:
    """Make the tables, a table fitted to them and an affine fit ready."""
    handle: Any = import_module("aiconfigurator_core.sdk.engine").EngineHandle
    engine = handle.compile(**dict(configuration), backend_version="current")
    measured = steps_of(engine)
    fits = (
        fit_tiled_time(measured, TABLE, TILE, relative=True).model,
        fit_affine_time(measured, relative=True).model,
    )

    def tables(prompt: int, decodes: int, kv_tokens: int) -> float:
        if not prompt:
            return float(engine.decode_step_latency(decodes, kv_tokens, 2))
        if not decodes:
            return float(engine.predict_prefill_latency(1, prompt))
        return float(engine.mixed_step_latency(prompt, decodes, kv_tokens, 2))

    return [tables, *(_fitted(one) for one in fits)]


def _fitted(model: BatchTime) -> Step:
    def step(prompt: int, decodes: int, kv_tokens: int) -> float:
        before = max(0, kv_tokens - prompt) / 2 if prompt else 0
        memory = decodes * kv_tokens + prompt + before
        one = round_of(decodes, memory, prompt, prompt * min(prompt, kv_tokens), prompt * before)
        return 1000 * float(model.durations(one)[0])

    return step


def _per_token(row: Row, step: Step) -> float:
    """Predict the time per output token, milliseconds."""
    parallel = int(row["attention_dp_size"] or 1) or 1
    batch = max(1, round(int(row["batch_size"]) / parallel))
    isl, osl = int(row["isl"]), int(row["osl"])
    kv_tokens = isl + osl // 2
    prompt = min(isl, BUDGET)
    mixed = (batch - 1) * -(-isl // prompt)
    if mixed >= osl:
        # Every step processes prompts, and as many tokens of them as must be.
        return step(max(1, round((batch - 1) * isl / osl)), batch - 1, kv_tokens)
    whole = (osl - mixed) * step(0, batch, kv_tokens)
    return (whole + (mixed and mixed * step(prompt, batch - 1, kv_tokens))) / osl


if __name__ == "__main__":
    run(compare_measured_tables)
