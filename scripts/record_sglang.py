"""Record decisions of SGLang's own scheduler on a CPU, without a model.

Runs in an environment of its own (Python 3.11; 0.5.23 is the version it was written for)::

    python -m venv sgl
    sgl/bin/pip install torch==2.13.0 --extra-index-url https://download.pytorch.org/whl/cpu
    sgl/bin/pip install transformers==5.23.0 pydantic psutil msgspec orjson pybase64 requests \
        pillow pyzmq dill aiohttp fastapi sentencepiece apache-tvm-ffi
    sgl/bin/pip install --no-deps sglang==0.5.23
    sgl/bin/python scripts/record_sglang.py recordings.json.gz

The scheduler, its event loop, the batches, the order and admission of prompts, the prefix cache and
the allocator of memory are the engine's. The model is not: each forward pass answers with tokens of
no meaning, and with an end of sequence where the workload says so. Packages that are not installed,
all of them for GPUs, servers or models, are stubs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import sys
import warnings
from abc import ABCMeta
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import MagicMock

import numpy as np

KERNELS = ("sglang.kernels.ops.mamba", "sglang.kernels.ops.attention.fla")
"""Parts of the engine that compile for a GPU when they are imported."""

SERVING = "sglang.srt.entrypoints.openai.protocol"

TIGHT: dict[str, Any] = {
    "max_total_tokens": 300,
    "prompts": 15,
    "outputs": 120,
    "schedule_conservativeness": 0.1,
    "arrivals": 40,
}
PAGES: dict[str, Any] = {"max_total_tokens": 640, "page_size": 16}
WORKLOADS: dict[str, dict[str, Any]] = {
    "light": {"max_total_tokens": 3000, "arrivals": 100},
    "light_chunks": {"max_total_tokens": 3000, "chunked_prefill_size": 32, "beyond": 20},
    "memory": {"beyond": 30},
    "chunks": {"chunked_prefill_size": 32, "beyond": 30},
    "tight": TIGHT,
    "tight_chunks": {**TIGHT, "chunked_prefill_size": 8, "beyond": 20},
    "tight_first": {**TIGHT, "schedule_conservativeness": 0.4, "beyond": 60},
    "slots": {"max_total_tokens": 500, "max_running_requests": 5, "chunked_prefill_size": 48},
    "batch": {"max_total_tokens": 800, "max_prefill_tokens": 64},
    "pages": {**TIGHT, **PAGES},
    "pages_chunks": {**TIGHT, **PAGES, "chunked_prefill_size": 40, "prompts": 80, "beyond": 20},
    "lof": {"schedule_policy": "lof", "chunked_prefill_size": 64},
    "lof_tight": {**TIGHT, "schedule_policy": "lof", "outputs": 60},
    "conservative": {"schedule_conservativeness": 3.0, "beyond": 60},
    "ignore_eos": {"ignore_eos": True},
    "ignore_eos_chunks": {"ignore_eos": True, "chunked_prefill_size": 24, "prompts": 80},
    "ignore_eos_pages": {
        **PAGES,
        "ignore_eos": True,
        "chunked_prefill_size": 40,
        "outputs": 100,
    },
    "mixed": {"enable_mixed_chunk": True, "chunked_prefill_size": 40},
    "mixed_tight": {**TIGHT, "enable_mixed_chunk": True, "chunked_prefill_size": 40, "beyond": 30},
    "mixed_eos": {"enable_mixed_chunk": True, "ignore_eos": True, "chunked_prefill_size": 40},
    "radix": {"disable_radix_cache": False, "beyond": 30},
    "radix_eos": {"disable_radix_cache": False, "ignore_eos": True, "chunked_prefill_size": 64},
    "radix_tight": {**TIGHT, "disable_radix_cache": False},
    "radix_pages": {**TIGHT, **PAGES, "disable_radix_cache": False, "chunked_prefill_size": 64},
    "lpm": {**TIGHT, "disable_radix_cache": False, "schedule_policy": "lpm"},
    "overlap": {"disable_overlap_schedule": False, "beyond": 30, "chunked_prefill_size": 64},
    "overlap_tight": {**TIGHT, "disable_overlap_schedule": False},
}
"""What differs from `workload`'s own, by name: settings of the engine, and the longest prompt and
output, the steps of arrivals, and tokens by which a longest output may exceed the true one."""


class Absent(ABCMeta):
    """A class of a package that is not there: a base, an annotation, or nothing's type."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class Stub(ModuleType):
    """A package that is not there, with every name that is asked for."""

    __version__ = "99.0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value: Any = Absent(name, (), {}) if name[0].isupper() else MagicMock(name=name)
        setattr(self, name, value)
        return value


class Stubs(MetaPathFinder, Loader):
    """Finds a stub for what SGLang imports and is not installed."""

    packages: ClassVar[set[str]] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return a stub's spec, or None for what is there."""
        package = name.partition(".")[0]
        if not name.startswith(KERNELS) and package not in self.packages:
            frame: Any = sys._getframe(1)
            while "importlib" in frame.f_globals["__name__"]:
                frame = frame.f_back
            known = package == "sglang" or package in sys.stdlib_module_names
            is_asked = frame.f_globals["__name__"].startswith("sglang")
            if known or not is_asked or PathFinder.find_spec(package) is not None:
                return None
            self.packages.add(package)
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty stub."""
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


def prepare() -> None:
    """Let SGLang be imported without a GPU and the packages for one."""
    import pydantic
    import torch
    import torch.utils.flop_counter
    import transformers

    torch.set_num_threads(1)
    # The compiler would look into the stub of Triton.
    torch.compile = lambda function=None, **_: function or (lambda one: one)
    pydantic.BaseModel.model_config["arbitrary_types_allowed"] = True
    for name in ("AutoProcessor", "AutoImageProcessor", "AutoVideoProcessor"):
        setattr(transformers, name, type(name, (), {"register": staticmethod(MagicMock())}))
    for name in ("ProcessorMixin", "BaseImageProcessor", "BaseVideoProcessor"):
        setattr(transformers, name, type(name, (), {}))
    sys.meta_path.insert(0, Stubs())
    sys.modules[SERVING] = Stub(SERVING)


def workload(name: str, seed: int) -> dict[str, Any]:
    """Return made-up requests and settings of the engine."""
    rng = np.random.default_rng([39, seed])
    draws = {"prompts": 60, "outputs": 50, "arrivals": 40, "beyond": 0}
    settings = {
        "max_total_tokens": 300,
        "page_size": 1,
        "chunked_prefill_size": None,
        "max_prefill_tokens": 16_384,
        "max_running_requests": 64,
        "schedule_policy": "fcfs",
        "schedule_conservativeness": 1.0,
        "ignore_eos": False,
        "enable_mixed_chunk": False,
        "disable_radix_cache": True,
        "disable_overlap_schedule": True,
    }
    for key, value in WORKLOADS[name].items():
        (draws if key in draws else settings)[key] = value
    n = int(rng.integers(12, 25))
    outputs = rng.integers(1, draws["outputs"] + 1, n)
    longest = outputs + rng.integers(0, draws["beyond"] + 1, n)
    return {
        "origin": f"decisions of the scheduler of SGLang {version('sglang')} "
        "(https://github.com/sgl-project/sglang), Apache-2.0; made-up requests",
        "engine": f"sglang {version('sglang')}",
        "name": name,
        "seed": seed,
        **settings,
        "prompt_lengths": rng.integers(1, draws["prompts"] + 1, n).tolist(),
        "output_lengths": outputs.tolist(),
        "max_new_tokens": longest.tolist(),
        "arrival_steps": np.sort(rng.integers(0, draws["arrivals"], n)).tolist(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write recordings, a line on each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE.json.gz")
    parser.add_argument("--seeds", type=int, default=2, help="workloads of each name")
    parser.add_argument("--names", nargs="+", metavar="NAME", default=list(WORKLOADS))
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(WORKLOADS):
        parser.error(f"unknown workloads {sorted(unknown)}; known: {', '.join(WORKLOADS)}")
    warnings.simplefilter("ignore")
    try:
        prepare()
        from studies.sglang_scheduler import Recorder
    except ModuleNotFoundError as error:
        parser.error(f"{error}: the head of this file says what to install")

    logging.disable(logging.CRITICAL)
    recordings = []
    for name in options.names:
        for seed in range(1, options.seeds + 1):
            engine = Recorder(workload(name, seed))
            run = engine.event_loop_overlap if engine.enable_overlap else engine.event_loop_normal
            run()
            recordings.append({**engine.entry, "steps": engine.steps})
            retracted = sum(len(step[2]) for step in engine.steps)
            print(f"{name} {seed}: {len(engine.steps)} steps, {retracted} retracted", flush=True)
    text = json.dumps(recordings, separators=(",", ":")).encode()
    options.file.write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
