"""Schedulers for vLLM that record rounds with their seconds. vLLM loads them by class name.

``PYTHONPATH=scripts vllm serve MODEL --scheduler-cls record_vllm_rounds.RecordingScheduler
--additional-config '{"rounds": "rounds.csv"}'``

`RecordingScheduler` is vLLM's own scheduler with recording. `RecordingPolicyScheduler` is the one
in which a policy decides. `Measurements.read` and the option ``--batch-time rounds.csv`` can read
the file. If the file can no longer be written, it is closed, and the server continues.
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
        For each request, its tokens processed in the round, and its tokens processed before.

    Returns
    -------
    tuple[int, int, int, int]
        Number of requests that decode, number of prompt tokens, and the sums ``prompt_squares`` and
        ``prompt_past`` of `Measurements`.
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
    """CSV file of the rounds of an engine with their seconds.

    A round begins when the results of the round before it are there. If the engine was idle before,
    it begins when it is planned. It ends when its own results are there.

    Parameters
    ----------
    path : str
        Path of the file.

    Raises
    ------
    OSError
        The file cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._lines = Lines(path)
        self._lines.write(",".join((*COLUMNS, *FURTHER_COLUMNS)))
        self._since: float | None = None
        # Rounds that were planned and have no results yet, by the key of their step.
        self._planned: dict[int, tuple[int, ...]] = {}

    def plan(self, key: int, work: Sequence[tuple[int, int]], kv_tokens: int, now: float) -> None:
        """Note a planned round.

        Parameters
        ----------
        key : int
            Number by which `finish` finds the round.
        work : Sequence[tuple[int, int]]
            Argument of `work_of`. Empty if the engine waits.
        kv_tokens : int
            Tokens stored at the end of the round.
        now : float
            The clock when planning began, in seconds.
        """
        if work:
            self._since = now if self._since is None else self._since
            decodes, prompts, squares, past = work_of(work)
            self._planned[key] = decodes + prompts, kv_tokens, decodes, squares, past
        elif not self._planned:
            self._since = None

    def finish(self, key: int, now: float, *, is_last: bool) -> None:
        """Write a round whose results are there. ``is_last`` says that the engine is now idle."""
        row = self._planned.pop(key, None)
        if row is None or self._since is None:
            return
        seconds = f"{max(now - self._since, 1e-9):.9f}"
        self._since = None if is_last and not self._planned else now
        self._lines.write(",".join(map(str, (row[0], row[1], seconds, *row[2:]))))


class _Recording:
    """Base class of schedulers that record the work and the seconds of every step."""

    running: list[Any]
    requests: dict[str, Any]

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)  # type: ignore[call-arg]
        self._rounds = RoundsFile(vllm_config.additional_config["rounds"])

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Plan a step as the scheduler does, and note it."""
        begun = time.monotonic()
        output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        # vLLM already counts the tokens of this step as computed, so subtract them.
        steps = output.num_scheduled_tokens.items()
        work = [(n, self.requests[name].num_computed_tokens - n) for name, n in steps]
        stored = sum(request.num_computed_tokens for request in self.running)
        self._rounds.plan(id(output), work, stored, begun)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Process the results of a step as the scheduler does, and write its round."""
        update = super().update_from_output  # type: ignore[misc]
        result = update(scheduler_output, model_runner_output)
        is_last = not self.has_unfinished_requests()  # type: ignore[attr-defined]
        self._rounds.finish(id(scheduler_output), time.monotonic(), is_last=is_last)
        return result


class RecordingScheduler(_Recording, AsyncScheduler):  # type: ignore[misc]
    """vLLM's own scheduler, with recording of its rounds."""


class RecordingPolicyScheduler(_Recording, PolicyScheduler):
    """vLLM's scheduler in which a policy decides, with recording of its rounds."""
