"""Batch times from NVIDIA's measured tables, through the optional package aiconfigurator-core.

The package has measured times of GPU kernels by GPU, engine and model. It adds them up to the time
of an engine's step. `steps_of` collects such times, and a batch time is fitted to them as to
measured rounds. A real server takes longer, because the tables do not have the work of the CPU
between steps.
"""

from __future__ import annotations

import functools
import logging
import re
from importlib import import_module, resources
from itertools import product
from typing import Any

import numpy as np

from instances import InvalidValueError
from instances.batch_time import AffineTime, TiledTime, parse_batch_time

from .fitting import fit_tiled_time
from .measurements import Measurements

PREFIX = "aiconfigurator:"
FORM = "aiconfigurator:SYSTEM/ENGINE/MODEL/tpGPUS"
FOLLOWS = (
    "as in aiconfigurator:h200_sxm/vllm/llama-3.1-70b/tp4; /fp8, /fp8_block, /nvfp4 or /int4_wo "
    "for quantised weights may follow"
)
FORM_PATTERN = re.compile(
    r"aiconfigurator:([^/]+)/([^/]+)/([^/]+)/tp([1-9]\d*)(?:/(fp8|fp8_block|nvfp4|int4_wo))?"
)

TABLE = (8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)
TILE = 8
"""TABLE: tokens at which the fitted table has entries. TILE: tokens round up to multiples of it."""

LARGEST_STEP, LARGEST_BATCH, MEMORY_SHARE = 8192, 256, 0.9
"""For the estimate of M: limits on tokens and on requests of a step, and share of GPU memory."""

DECODES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
KV_TOKENS = (128, 512, 1024, 2048, 4096, 8192)
PROMPTS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
PAST = (0, 512, 2048, 8192)
"""Steps of `steps_of`: DECODES requests of KV_TOKENS each, and PROMPTS tokens after PAST tokens."""


def _engine_of(text: str) -> tuple[Any, int]:
    """Return the aiconfigurator engine of a deployment, and the size M of its KV cache in tokens.

    ``text`` names the deployment: aiconfigurator:SYSTEM/ENGINE/MODEL/tpGPUS.

    Raises
    ------
    InvalidValueError
        The text has another form, the package is not installed, or its tables lack the deployment.
    """
    parts = FORM_PATTERN.fullmatch(text)
    if parts is None:
        raise InvalidValueError(None, "batch time", text, f"is not of the form {FORM}, {FOLLOWS}")
    system, backend, model, gpus, quantised = parts.groups()
    settings: dict[str, Any] = {"backend_version": "current", "tp_size": int(gpus)}
    if quantised:
        settings |= {"gemm_quant_mode": quantised, "kvcache_quant_mode": "fp8"}
    # Logging is off because the package reports tables that are not needed here.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        sdk: Any = import_module("aiconfigurator_core.sdk.engine")
        memory: Any = import_module("aiconfigurator_core.sdk.memory")
        place = (_model(model), system, backend)
        estimate = memory.estimate_kv_cache(
            *place,
            **settings,
            max_num_tokens=LARGEST_STEP,
            max_batch_size=LARGEST_BATCH,
            memory_fraction_kind="of_free" if backend == "trtllm" else "of_total",
            memory_fraction_value=MEMORY_SHARE,
        )
        return sdk.EngineHandle.compile(*place, **settings), int(estimate["total_kv_size_tokens"])
    except ImportError:
        reason = "needs the package: pip install 'llm-hindsight[aiconfigurator]'"
        raise InvalidValueError(None, "batch time", text, reason) from None
    # The package raises exceptions of many types. Their messages name the entry that is missing.
    except Exception as error:
        reason = f"is not in the tables of aiconfigurator-core: {error}"
        raise InvalidValueError(None, "batch time", text, reason) from error
    finally:
        logging.disable(before)


def _model(name: str) -> str:
    """Return the model of aiconfigurator whose name is, or ends with, ``name``.

    Raises
    ------
    LookupError
        There is no such model, or there are several.
    """
    files = resources.files("aiconfigurator_core") / "model_configs"
    known = [one.name.removesuffix("_config.json") for one in files.iterdir()]
    wanted = name.lower()
    found = [one for one in known if one.lower().endswith(("-" + wanted, "--" + wanted))]
    found = [one for one in known if one.lower() == wanted] or found
    if len(found) != 1:
        fault = "could be any of" if found else "is none of"
        raise LookupError(f"{name!r} {fault} {', '.join(sorted(found or known))}")
    return found[0].replace("--", "/", 1)


def steps_of(engine: Any) -> Measurements:
    """Return steps of decodes, of prompts, and of both, with their seconds on an engine.

    The engine is one of aiconfigurator. Its ``mixed_step_latency(n, b, kv)`` is the time of a step
    that decodes b requests of kv tokens and processes n tokens of prompts. These prompts have kv
    tokens each. If n >= kv, whole prompts are processed. Otherwise a chunk of a prompt is
    processed, after (kv - n) / 2 earlier tokens on average.
    """
    rows: list[tuple[float, ...]] = []
    for b, kv in product(DECODES, KV_TOKENS):
        milliseconds = engine.decode_step_latency(b, kv, 2)
        rows.append((b, b * kv, milliseconds, b, 0, 0))
    for n, y in product(PROMPTS, PAST):
        milliseconds = engine.predict_prefill_latency(1, n + y, y)
        rows.append((n, n + y, milliseconds, 0, n * n, n * y))
    for n, b, kv in product(PROMPTS[1::2], DECODES[3::4], KV_TOKENS[1::2]):
        milliseconds = engine.mixed_step_latency(n, b, kv, 2)
        before = max(0, kv - n) / 2
        resident = n + before + b * kv
        rows.append((n + b, resident, milliseconds, b, n * min(n, kv), n * before))
    columns = np.array(rows, dtype=np.float64).T
    columns[2] /= 1000
    return Measurements(*columns)


@functools.lru_cache(maxsize=32)
def _fitted(text: str) -> tuple[TiledTime, int]:
    engine, limit = _engine_of(text)
    return fit_tiled_time(steps_of(engine), TABLE, TILE), limit


def read_batch_time(text: str) -> tuple[AffineTime | TiledTime, int | None]:
    """Return the batch time that a text names, and the memory of its machine if the text has one.

    The memory is M, in tokens.

    Parameters
    ----------
    text : str
        A deployment in the measured tables, aiconfigurator:SYSTEM/ENGINE/MODEL/tpGPUS, or a text
        for `instances.batch_time.parse_batch_time`.

    Raises
    ------
    UnknownNameError, InvalidValueError
        The text has none of these forms, or aiconfigurator-core is missing or lacks the deployment.
    """
    return _fitted(text) if text.startswith(PREFIX) else parse_batch_time(text)
