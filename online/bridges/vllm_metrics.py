"""The requests of a vLLM server, recorded as a log through its public interface for metrics.

vLLM loads `RequestsLogger` by itself if this package is installed (by the entry point group
``vllm.stat_logger_plugins``). It writes only if vLLM has the option
``--additional-config '{"requests": FILE}'``. The log has lines of JSON in the form of
inference-perf's records, which `read_log` and the command ``headroom FILE`` can read. The first
line also has the settings of the engine.

An error in recording does not end the server. If the file can no longer be written, it is closed.
"""

from __future__ import annotations

import json
import os
from typing import Any

from vllm.logger import init_logger
from vllm.v1.metrics.loggers import StatLoggerBase

_logger = init_logger(f"vllm.{__name__}")

COMPLETED = ("STOP", "LENGTH")
"""Finish reasons of requests that have not failed."""

PROMPT_SETTINGS = {
    "watermark": 0.0,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "enable_chunked_prefill": True,
    "prefill_schedule_interval": 1,
    "scheduler_reserve_full_isl": False,
}
"""Scheduler settings that may delay prompts, with the values at which they do not."""

SCHEDULER_SETTINGS = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "async_scheduling",
    *PROMPT_SETTINGS,
)
CACHE_SETTINGS = ("block_size", "num_gpu_blocks", "enable_prefix_caching")


def engine_settings(vllm_config: Any, policy: str | None) -> dict[str, Any]:
    """Return the settings that determine the steps of a vLLM engine, by the names of vLLM."""
    scheduler = {key: getattr(vllm_config.scheduler_config, key) for key in SCHEDULER_SETTINGS}
    cache = {key: getattr(vllm_config.cache_config, key) for key in CACHE_SETTINGS}
    return {"name": "vllm", "policy": policy, **scheduler, **cache}


class Lines:
    """A text file to which lines are written at once, without a buffer.

    Parameters
    ----------
    path : str
        Path of the file, which is overwritten.

    Raises
    ------
    OSError
        The file cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._path = path

    def write(self, line: str) -> None:
        """Write a line. If the file can no longer be written, log one warning and close it."""
        if self._file is None:
            return
        try:
            os.write(self._file, f"{line}\n".encode())
        except OSError as error:
            os.close(self._file)
            self._file = None
            _logger.warning("%s: %s: nothing more is recorded there", self._path, error.strerror)


class RequestsLogger(StatLoggerBase):  # type: ignore[misc]
    """Writes a JSON line for every request that ends."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        given = vllm_config.additional_config or {}
        path = given.get("requests")
        self._lines: Lines | None = None
        if path is None:
            return
        self._lines = Lines(f"{path}.{engine_index}" if engine_index else path)
        is_led = "PolicyScheduler" in str(vllm_config.scheduler_config.scheduler_cls)
        policy = given.get("policy") if is_led else None
        self._engine = {"engine": engine_settings(vllm_config, policy)}

    def record(self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any) -> None:
        """Write a line for each request that ended in a step."""
        if self._lines is None or iteration_stats is None:
            return
        now = iteration_stats.iteration_timestamp
        for one in iteration_stats.finished_requests:
            reason = one.finish_reason.name
            output = {"output_tokens": one.num_generation_tokens}
            line = {
                "request_id": str(one.request_id),
                "start_time": round(now - one.e2e_latency, 6),
                "end_time": round(now, 6),
                "info": {"input_tokens": one.num_prompt_tokens, "response_metrics": output},
                "error": None if reason in COMPLETED else {"error_type": reason.lower()},
                **self._engine,
            }
            self._engine = {}
            self._lines.write(json.dumps(line))

    def log_engine_initialized(self) -> None:
        """Do nothing: the settings are written with the first request."""
