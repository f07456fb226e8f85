"""Record a running engine: its rounds for batch times, its requests as a log.

Rounds are rows of a CSV file that `Measurements.read` takes, and so ``--batch-time FILE.csv``.
Requests are JSON lines in the form of inference-perf's records, which `read_log` knows, and so
``headroom FILE``; the first of them carries the engine's settings too. No engine is imported here.

Recording never ends a server: a file that cannot be written any more is closed.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from online.batch_time.measurements import COLUMNS, FURTHER_COLUMNS

Warn = Callable[[str], object]

COMPLETED = ("STOP", "LENGTH")
"""Reasons for which the requests end that have not failed."""


def work_of(requests: Iterable[tuple[int, int]]) -> tuple[int, int, int, int]:
    """Sum up the work of a round.

    Parameters
    ----------
    requests : Iterable[tuple[int, int]]
        Tokens of each that are processed in the round, and before it.

    Returns
    -------
    tuple[int, int, int, int]
        Requests that decode; prompt tokens, squares and products: see `Measurements`.
    """
    decodes = prompts = squares = past = 0
    for tokens, before in requests:
        if tokens == 1 and before:
            decodes += 1
        else:
            prompts += tokens
            squares += tokens * tokens
            past += tokens * before
    return decodes, prompts, squares, past


PROMPT_SETTINGS = {
    "watermark": 0.0,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "enable_chunked_prefill": True,
    "prefill_schedule_interval": 1,
    "scheduler_reserve_full_isl": False,
}
"""Settings of the scheduler that keep prompts back, and the values with which they do not."""

SCHEDULER_SETTINGS = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "async_scheduling",
    *PROMPT_SETTINGS,
)
CACHE_SETTINGS = ("block_size", "num_gpu_blocks", "enable_prefix_caching")


def engine_settings(vllm_config: Any, policy: str | None) -> dict[str, Any]:
    """Return what decides the steps of a vLLM engine, by its own names."""
    told = {"name": "vllm", "policy": policy}
    for part, keys in (
        (vllm_config.scheduler_config, SCHEDULER_SETTINGS),
        (vllm_config.cache_config, CACHE_SETTINGS),
    ):
        told |= {key: getattr(part, key) for key in keys}
    return told


class _Lines:
    """A file of lines, of which each is there as soon as it is written."""

    def __init__(self, path: str, warn: Warn) -> None:
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._path, self._warn = path, warn

    def write(self, line: str) -> None:
        if self._file is None:
            return
        try:
            os.write(self._file, f"{line}\n".encode())
        except OSError as error:
            os.close(self._file)
            self._file = None
            self._warn(f"{self._path}: {error.strerror}: nothing more is recorded there")


class RoundsFile:
    """Rounds of an engine with their seconds.

    A round lasts from the results of the one before it to its own; if the engine was idle before
    it, from when it was planned.

    Parameters
    ----------
    path : str
        The CSV file.
    warn : Callable[[str], object]
        Told if the file cannot be written any more.

    Raises
    ------
    OSError
        The file cannot be written.
    """

    def __init__(self, path: str, warn: Warn) -> None:
        self._lines = _Lines(path, warn)
        self._lines.write(",".join((*COLUMNS, *FURTHER_COLUMNS)))
        self._since: float | None = None
        # By what tells a step: rounds that have been planned and not been run.
        self._planned: dict[int, tuple[int, ...]] = {}

    def plan(self, key: int, work: Sequence[tuple[int, int]], kv_tokens: int, now: float) -> None:
        """Note a round.

        Parameters
        ----------
        key : int
            What tells it in `finish`.
        work : Sequence[tuple[int, int]]
            As in `work_of`; empty if the engine waits.
        kv_tokens : int
            Tokens stored by the end of it.
        now : float
            The clock when planning began, seconds.
        """
        if work:
            self._since = now if self._since is None else self._since
            decodes, prompts, squares, past = work_of(work)
            self._planned[key] = decodes + prompts, kv_tokens, decodes, squares, past
        elif not self._planned:
            self._since = None

    def finish(self, key: int, now: float, *, is_last: bool) -> None:
        """Write a round whose results are there; ``is_last`` if the engine is idle now."""
        row = self._planned.pop(key, None)
        if row is None or self._since is None:
            return
        seconds = f"{max(now - self._since, 1e-9):.9f}"
        self._since = None if is_last and not self._planned else now
        self._lines.write(",".join(map(str, (row[0], row[1], seconds, *row[2:]))))


class RequestsFile:
    """Requests of an engine with their times.

    Parameters
    ----------
    path : str
        The file of JSON lines.
    settings : Mapping[str, Any]
        Settings of the engine, written with the first request.
    warn : Callable[[str], object]
        Told if the file cannot be written any more.

    Raises
    ------
    OSError
        The file cannot be written.
    """

    def __init__(self, path: str, settings: Mapping[str, Any], warn: Warn) -> None:
        self._lines = _Lines(path, warn)
        self._settings = dict(settings)
        self._stamps: dict[str, list[float]] = defaultdict(list)

    def emit(self, name: str, tokens: int, now: float) -> None:
        """Note that a request has so many output tokens, the newest of them now."""
        stamps = self._stamps[name]
        stamps += [now] * (tokens - len(stamps))

    def end(
        self, name: str, arrival: float, lengths: tuple[int, int], now: float, reason: str
    ) -> None:
        """Write a request that has ended.

        Parameters
        ----------
        name : str
            The request.
        arrival, now : float
            Unix times of its arrival and its end.
        lengths : tuple[int, int]
            Tokens of its prompt and of its output.
        reason : str
            Why it ended; it has failed unless that is one of `COMPLETED`.
        """
        response: dict[str, Any] = {"output_tokens": lengths[1]}
        stamps = self._stamps.pop(name, None)
        if stamps:
            response["output_token_times"] = [round(stamp, 6) for stamp in stamps]
        record = {
            "request_id": name,
            "start_time": round(arrival, 6),
            "end_time": round(max(arrival, now), 6),
            "info": {"input_tokens": lengths[0], "response_metrics": response},
            "error": None if reason in COMPLETED else {"error_type": reason.lower()},
        }
        if self._settings:
            record["engine"], self._settings = self._settings, {}
        self._lines.write(json.dumps(record))
