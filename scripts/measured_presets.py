"""Write the presets of today's machines, from NVIDIA's measured tables of kernels.

Needs the extra ``aiconfigurator``. The result is instances/batch_time/measured.json.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer

from instances.batch_time.presets import MEASURED, batch_time_document
from instances.files import write_atomically
from online.batch_time.measured_tables import PREFIX, read_batch_time
from online.commands.console import run, say

MODELS = (("llama-3.1-8b", 1), ("llama-3.1-70b", 4))
MACHINES = (
    ("a100", "vllm"),
    ("h100", "vllm"),
    ("h200", "vllm"),
    ("b200", "vllm"),
    ("h200", "sglang"),
    ("h200", "trtllm"),
)
DIGITS = 5
"""Significant digits of seconds: the tables' own error is some per cent."""


def measured_presets(
    out: Annotated[Path, typer.Option(help="The file that is written.")] = Path(
        "instances/batch_time", MEASURED
    ),
) -> None:
    """Fit a table to the steps of each machine, and write all as JSON."""
    presets = {}
    for gpu, engine in MACHINES:
        for model, gpus in MODELS:
            text = f"{PREFIX}{gpu}_sxm/{engine}/{model}/tp{gpus}"
            time, limit = read_batch_time(text)
            document = _rounded(batch_time_document(time))
            name = f"{model}-{gpu}-tp{gpus}-{engine}"
            presets[name] = {"of": text, "memory_limit": limit, "batch_time": document}
            say(f"{name}: M = {limit}")
    source = f"measured tables of aiconfigurator-core {version('aiconfigurator-core')} by NVIDIA"
    whole = {
        "source": f"{source}, https://pypi.org/project/aiconfigurator-core",
        "licence": "Apache-2.0",
        "presets": presets,
    }
    write_atomically(out, _lines(whole))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _lines(document: dict[str, Any]) -> str:
    """Write JSON with a preset a line."""
    presets = document.pop("presets")
    head = json.dumps(document, indent=1)[:-2]
    lines = [f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in presets.items()]
    return head + ',\n "presets": {\n' + ",\n".join(lines) + "\n }\n}\n"


if __name__ == "__main__":
    run(measured_presets)
