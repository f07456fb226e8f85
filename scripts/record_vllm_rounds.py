"""Schedulers of vLLM that record rounds with their seconds: classes that vLLM takes by name.

``PYTHONPATH=scripts vllm serve MODEL --scheduler-cls record_vllm_rounds.RecordingScheduler
--additional-config '{"rounds": "rounds.csv"}'``

`RecordingScheduler` is vLLM's own scheduler, `RecordingPolicyScheduler` the one that a policy
leads. The file is one that `Measurements.read` takes, and so ``--batch-time rounds.csv``. A file
that cannot be written any more is closed, and the server goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from online.batch_time.measurements import COLUMNS, FURTHER_COLUMNS
from online.bridges.vllm import PolicyScheduler
from online.bridges.vllm_metrics import Lines


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


class RoundsFile:
    """Rounds of an engine with their seconds.

    A round lasts from the results of the one before it to its own; if the engine was idle before
    it, from when it was planned.

    Parameters
    ----------
    path : str
        The CSV file.

    Raises
    ------
    OSError
        The file cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._lines = Lines(path)
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


class _Recording:
    """Writes down what every step of a scheduler did, and how long it took."""

    running: list[Any]
    requests: dict[str, Any]

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)  # type: ignore[call-arg]
        self._rounds = RoundsFile(vllm_config.additional_config["rounds"])

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Plan a step."""
        begun = time.monotonic()
        output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        # What is processed in this step is counted as computed already.
        steps = output.num_scheduled_tokens.items()
        work = [(n, self.requests[name].num_computed_tokens - n) for name, n in steps]
        stored = sum(request.num_computed_tokens for request in self.running)
        self._rounds.plan(id(output), work, stored, begun)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take the results of a step."""
        update = super().update_from_output  # type: ignore[misc]
        result = update(scheduler_output, model_runner_output)
        is_last = not self.has_unfinished_requests()  # type: ignore[attr-defined]
        self._rounds.finish(id(scheduler_output), time.monotonic(), is_last=is_last)
        return result


class RecordingScheduler(_Recording, AsyncScheduler):  # type: ignore[misc]
    """vLLM's own scheduler, recorded."""


class RecordingPolicyScheduler(_Recording, PolicyScheduler):
    """vLLM's scheduler led by a policy, recorded."""
