"""The requests of an unchanged vLLM server, recorded through its public interface for metrics.

vLLM loads this class by itself where the package is installed (the entry point group
``vllm.stat_logger_plugins``). It does nothing unless ``--additional-config '{"requests": FILE}'``
asks for it, and nothing either where a scheduler of `online.bridges.vllm` records them.
"""

from __future__ import annotations

from typing import Any

from vllm.logger import init_logger
from vllm.v1.metrics.loggers import StatLoggerBase

from .recording import RequestsFile, engine_settings

_logger = init_logger(f"vllm.{__name__}")


class RequestsLogger(StatLoggerBase):  # type: ignore[misc]
    """Writes a line for every request that ends."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        path = (vllm_config.additional_config or {}).get("requests")
        self._file: RequestsFile | None = None
        if path is None or "online.bridges" in str(vllm_config.scheduler_config.scheduler_cls):
            return
        path = f"{path}.{engine_index}" if engine_index else path
        self._file = RequestsFile(path, engine_settings(vllm_config, None), _logger.warning)

    def record(self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any) -> None:
        """Write the requests that ended in a step."""
        if self._file is None or iteration_stats is None:
            return
        now = iteration_stats.iteration_timestamp
        for one in iteration_stats.finished_requests:
            lengths = one.num_prompt_tokens, one.num_generation_tokens
            name, reason = str(one.request_id), one.finish_reason.name
            self._file.end(name, now - one.e2e_latency, lengths, now, reason)

    def log_engine_initialized(self) -> None:
        """Note nothing: settings are written with the first request."""
