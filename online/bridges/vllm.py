"""vLLM led by a policy, emulated without a GPU, and recorded: classes that vLLM takes by name.

``vllm serve MODEL --scheduler-cls online.bridges.vllm.PolicyScheduler --additional-config
'{"policy": "my_rules.py:Mine"}'``

`PolicyScheduler` lets a policy decide who starts, is held or preempted, and how much of a prompt is
processed; vLLM does the rest. `RecordingScheduler` is vLLM's own scheduler. Both record rounds and
requests. `EmulatedExecutor` computes nothing and takes as long as a batch time says.

Settings are keys of ``--additional-config``; `Options` lists them.

vLLM calls its scheduler's interface not public. This module is tested with the versions `TESTED`;
with another it says so when it starts, and it does not start where a method that it needs is gone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from multiprocessing import parent_process
from typing import Any

try:
    from vllm.logger import init_logger
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.request_queue import FCFSRequestQueue, create_request_queue
    from vllm.v1.executor.abstract import Executor
    from vllm.v1.kv_cache_interface import FullAttentionSpec
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.version import __version__ as vllm_version
except ModuleNotFoundError as error:
    reason = f"online.bridges.vllm runs inside vLLM, of which {error.name!r} is not installed here"
    raise ModuleNotFoundError(reason, name=error.name) from None

from instances.errors import InvalidTypeError, InvalidValueError
from instances.service_level import ServiceLevel
from online.batch_time.measurements import round_of
from online.headroom.engine_settings import with_settings
from online.policy_interface.specs import read_policy

from .lead import Lead
from .recording import (
    COMPLETED,
    PROMPT_SETTINGS,
    RequestsFile,
    RoundsFile,
    engine_settings,
    work_of,
)

TESTED = ("0.32", "0.33")
"""Versions of vLLM with which the engine's steps were compared with the simulation."""

PREDICTION = "predicted_output"
"""Key of a request's ``extra_args`` (``vllm_xargs`` of the API) that holds what is predicted of its
output: tokens, or [least, most]. Without it ``max_tokens`` is told."""

USED = ("_reserve_prefill_lookahead", "_preempt_request", "_free_request", "update_from_output")
"""Methods of vLLM's scheduler, beside ``schedule``, that are called or replaced."""

# vLLM formats what its own loggers write.
_logger = init_logger(f"vllm.{__name__}")


@dataclass(frozen=True)
class Options:
    """Settings in ``--additional-config``; other keys there belong to others.

    Parameters
    ----------
    policy : str or None, default None
        The policy that leads, as on the command line: ``"mc-sf"``, ``"my_rules.py:Mine"``.
    level : dict or None, default None
        Service level that the policy is told, as the fields of `ServiceLevel`.
    patience : float, default 1.0
        Seconds that a policy may let the engine idle while requests wait; see `Lead`.
    rounds, requests : str or None, default None
        Files that get the rounds (CSV) and the requests (JSON lines).
    batch_time : str or None, default None
        Seconds of a step, which policies are told and `EmulatedExecutor` takes: a preset,
        ``affine:d0,d1,d2``, or the path of a CSV file of measured rounds.
    asynchronous : bool or None, default None
        Whether `EmulatedExecutor` has steps planned before the results of the last one are there;
        None leaves it to vLLM, which does so on GPUs and never on CPUs.
    """

    policy: str | None = None
    level: dict[str, float] | None = None
    patience: float = 1.0
    rounds: str | None = None
    requests: str | None = None
    batch_time: str | None = None
    asynchronous: bool | None = None

    @classmethod
    def of(cls, vllm_config: Any) -> Options:
        """Read the settings of an engine."""
        given = vllm_config.additional_config or {}
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given})

    def seconds(self) -> tuple[Any, str]:
        """Find the batch time, None if there is none, and say where it is from.

        Raises
        ------
        ValueError, OSError
            It is none, or its file cannot be read.
        """
        from online.headroom.batch_times import FIT, find_batch_time

        if self.batch_time is None:
            return None, ""
        if self.batch_time == FIT:
            reason = "needs a log, and there is none"
            raise InvalidValueError(None, "batch_time", self.batch_time, reason)
        time, where_from = find_batch_time(self.batch_time, None)  # type: ignore[arg-type]
        return time, where_from


class RecordingScheduler(AsyncScheduler):  # type: ignore[misc]
    """vLLM's own scheduler, which records what every step did and how long it took."""

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)
        self._options = options = Options.of(vllm_config)
        warn, settings = _logger.warning, engine_settings(vllm_config, options.policy)
        self._rounds = RoundsFile(options.rounds, warn) if options.rounds else None
        self._log = RequestsFile(options.requests, settings, warn) if options.requests else None

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Plan a step."""
        begun = time.monotonic()
        output = super().schedule(*args, **kwargs)
        if self._rounds is not None:
            # What is processed in this step is counted as computed already.
            steps = output.num_scheduled_tokens.items()
            work = [(n, self.requests[name].num_computed_tokens - n) for name, n in steps]
            stored = sum(request.num_computed_tokens for request in self.running)
            self._rounds.plan(id(output), work, stored, begun)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take the results of a step."""
        result = super().update_from_output(scheduler_output, model_runner_output)
        if self._rounds is not None:
            is_last = not self.has_unfinished_requests()
            self._rounds.finish(id(scheduler_output), time.monotonic(), is_last=is_last)
        if self._log is not None:
            now = time.time()
            for name in scheduler_output.num_scheduled_tokens:
                request = self.requests.get(name)
                if request is not None and request.num_output_tokens:
                    self._log.emit(name, request.num_output_tokens, now)
        return result

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self._log is not None:
            now, name, output = time.time(), request.request_id, request.num_output_tokens
            lengths, reason = (request.num_prompt_tokens, output), request.get_finished_reason()
            if reason.name in COMPLETED:
                # It ends with its last token.
                self._log.emit(name, output, now)
            self._log.end(name, request.arrival_time, lengths, now, reason.name)
        return super()._free_request(request, *args, **kwargs)


class Gate(FCFSRequestQueue):  # type: ignore[misc]
    """The waiting queue, of which the engine admits only those that are let in."""

    def __init__(self) -> None:
        super().__init__()
        self.let_in: deque[Any] = deque()

    def __bool__(self) -> bool:
        return bool(self.let_in)

    def peek_request(self) -> Any:
        """Return the next to be admitted."""
        return self.let_in[0]

    def pop_request(self) -> Any:
        """Take out the next to be admitted."""
        request = self.let_in.popleft()
        self.remove(request)
        return request


class PolicyScheduler(RecordingScheduler):
    """vLLM's scheduler, led by a policy; a step is a round.

    Where the policy raises an error, or decides something impossible, or lets the engine idle, the
    engine goes on in its own order, with one warning. It derives from vLLM's asynchronous
    scheduler, which without asynchronous scheduling does what the other does.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No policy, one that cannot lead an engine, or an engine that cannot be led.
    """

    clock: Callable[[], float] = staticmethod(time.monotonic)
    """The clock of policies, seconds."""

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)
        try:
            _check_engine(vllm_config)
            self.lead: Lead | None = self._make_lead()
        except (TypeError, ValueError, OSError) as error:
            if parent_process() is None:
                raise
            # In a server's own process for the engine: one line, and no traceback.
            _logger.error("%s", error)
            raise SystemExit(1) from None
        self.waiting = Gate()
        self._most_tokens: dict[str, int] = {}
        self._begun = self.clock()
        self.lead_seconds = 0.0
        if not vllm_version.startswith(TESTED):
            told = "online.bridges.vllm was tested with vLLM %s, and this is %s"
            _logger.warning(told, " and ".join(TESTED), vllm_version)
        _logger.info("policy %s leads", self._options.policy)

    def _make_lead(self) -> Lead:
        options = self._options
        if not isinstance(options.policy, str):
            reason = 'is not told: --additional-config \'{"policy": "mc-sf"}\''
            raise InvalidTypeError(None, "policy", options.policy, reason)
        level = None if options.level is None else ServiceLevel(**options.level)
        own = engine_settings(self.vllm_config, None)
        policy = with_settings(read_policy(options.policy), "vllm", own).make()
        for name, free in PROMPT_SETTINGS.items():
            mine, theirs = getattr(policy, name, own[name]), own[name]
            if theirs not in (free, mine):
                reason = f"is not the engine's, {theirs}, which keeps prompts back as well"
                raise InvalidValueError("policy", name, mine, reason)
        # One block of the engine is the null block, which nobody gets.
        blocks, patience = self.cache_config.num_gpu_blocks - 1, float(options.patience)
        seconds = options.seconds()[0]
        return Lead(
            policy, blocks, self.block_size, level=level, batch_time=seconds, patience=patience
        )

    def _now(self) -> float:
        return self.clock() - self._begun

    def add_request(self, request: Any) -> None:
        """Take a request, and tell the policy with the next step."""
        is_new = request.request_id not in self.requests
        super().add_request(request)
        if is_new and self.lead is not None:
            told = (request.sampling_params.extra_args or {}).get(PREDICTION)
            lengths, now = (request.num_prompt_tokens, request.max_tokens), self._now()
            if not self.lead.arrive(request.request_id, now, lengths, told):
                what = "%s is neither tokens nor [least, most] in some request: max_tokens counts"
                _logger.warning_once(what, PREDICTION)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self.lead is not None:
            self.lead.end(request.request_id)
        return super()._free_request(request, *args, **kwargs)

    def _reserve_prefill_lookahead(self, request: Any, *args: Any, **kwargs: Any) -> int:
        # Called for each request with its tokens of the step: 0 holds it, fewer are a chunk.
        tokens: int = super()._reserve_prefill_lookahead(request, *args, **kwargs)
        return min(tokens, self._most_tokens.get(request.request_id, tokens))

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Plan a step as the policy has it."""
        if self.lead is None:
            return super().schedule(*args, **kwargs)
        begun = time.perf_counter()
        try:
            running = {request.request_id: request for request in self.running}
            orders = self.lead.orders(self._now(), running)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a policy raises)
            self._go_on_alone(error)
            return super().schedule(*args, **kwargs)
        if self.lead.evicted:
            what = "policy %s evicts: an engine cannot take back tokens, and preempts instead"
            _logger.warning_once(what, self._options.policy)
        stamp = time.monotonic()
        for name in orders.preempt:
            self.running.remove(running[name])
            self._preempt_request(running[name], stamp)
        self._most_tokens = orders.most_tokens
        admitted = [name for name in orders.start if orders.most_tokens.get(name, 1)]
        self.waiting.let_in.extend(self.requests[name] for name in admitted)
        planned = time.perf_counter()
        output = super().schedule(*args, **kwargs)
        noted = time.perf_counter()
        tokens = output.num_scheduled_tokens
        self.waiting.let_in.clear()
        found = {name: self.requests[name].num_computed_tokens - n for name, n in tokens.items()}
        try:
            self.lead.ran(tokens, {name: found[name] for name in orders.start if name in tokens})
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a policy has caused)
            self._go_on_alone(error)
        self.lead_seconds += planned - begun + time.perf_counter() - noted
        return output

    def _go_on_alone(self, error: BaseException) -> None:
        """Put the engine's own queue back, and warn."""
        self.lead, self._most_tokens = None, {}
        waiting = sorted(self.waiting, key=lambda request: request.arrival_time)
        self.waiting = create_request_queue(self.policy)
        for request in waiting:
            self.waiting.add_request(request)
        what = "policy %s leads no more, the engine goes on in its own order: it has failed: %s: %s"
        told = " ".join(str(error).split())
        _logger.warning(what, self._options.policy, type(error).__name__, told)


def _check_engine(vllm_config: Any) -> None:
    """Refuse engines whose steps a policy's rounds do not describe.

    Raises
    ------
    InvalidValueError
        With what stands in the way.
    """
    missing = [name for name in USED if not hasattr(AsyncScheduler, name)]
    if missing:
        reason = f"has no {missing[0]}: online.bridges.vllm was tested with {' and '.join(TESTED)}"
        raise InvalidValueError(None, "vLLM", vllm_version, reason)
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    for is_there, what in (
        (vllm_config.speculative_config is not None, "speculative decoding"),
        (vllm_config.kv_transfer_config is not None, "a KV connector"),
        (parallel.pipeline_parallel_size > 1, "pipeline parallelism"),
        (model.runner_type == "pooling" or model.is_encoder_decoder, "a model that only encodes"),
        (vllm_config.scheduler_config.prefill_schedule_interval > 1, "prefill_schedule_interval"),
    ):
        if is_there:
            raise InvalidValueError(None, "engine", what, "cannot be led by a policy")


class EmulatedExecutor(Executor):  # type: ignore[misc]
    """A worker that computes nothing: every step takes as long as a batch time says.

    API server, engine core, scheduler and block manager are vLLM's own. Every token is the same,
    and outputs end at ``max_tokens``. Memory is ``--num-gpu-blocks-override``.
    """

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """Tell that a step may be planned before the results of the one before it are there."""
        return True

    def _init_executor(self) -> None:
        options = Options.of(self.vllm_config)
        if options.asynchronous is not None:
            self.scheduler_config.async_scheduling = options.asynchronous
        self._batch_time, told = options.seconds()
        if self._batch_time is None:
            reason = 'is not told: --additional-config \'{"batch_time": "affine:0.02,0.0001,0"}\''
            raise InvalidTypeError(None, "batch_time", None, reason)
        _logger.info("no worker: a step lasts %s", told)
        stops = getattr(self.model_config.hf_config, "eos_token_id", None)
        stops = stops if isinstance(stops, list) else [stops]
        self._token = next(one for one in range(3, 100) if one not in stops)
        # Tokens stored of each request, and tokens that there are of it.
        self._stored: dict[str, int] = {}
        self._known: dict[str, int] = {}
        self._worker = ThreadPoolExecutor(1)
        self._free_at = 0.0
        self._nothing_yet: Future[None] = Future()
        self._nothing_yet.set_result(None)
        self._steps: deque[Future[ModelRunnerOutput]] = deque()

    def collective_rpc(self, method: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """Answer for a worker with a cache of one small layer, which is not there."""
        import torch

        size = self.cache_config.block_size
        spec = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=32, dtype=torch.float16)
        answers: dict[str, list[Any]] = {
            "get_supported_tasks": [("generate",)],
            "get_kv_cache_spec": [{"layer": spec}],
            "get_supported_kv_cache_layouts": [["LBNHC", "LBHNC", "BLNHC"]],
            "determine_available_memory": [1 << 34],
            "compile_or_warm_up_model": [],
        }
        return answers.get(method, [None])

    def check_health(self) -> None:
        """Be well."""

    def shutdown(self) -> None:
        """End the thread that sleeps."""
        self._worker.shutdown(wait=False)

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Begin a step; its tokens come with `sample_tokens`."""
        step = self._worker.submit(self._wait, time.perf_counter(), *self._step(scheduler_output))
        if not scheduler_output.num_scheduled_tokens:
            return step if non_block else step.result()
        self._steps.append(step)
        return self._nothing_yet if non_block else None

    def _wait(self, begun: float, seconds: float, output: Any) -> Any:
        self._free_at = max(self._free_at, begun) + seconds
        time.sleep(max(0.0, self._free_at - time.perf_counter()))
        return output

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        """Return the tokens of the step that began first."""
        step = self._steps.popleft()
        return step if non_block else step.result()

    def _step(self, scheduler_output: Any) -> tuple[float, Any]:
        """Return how long a step takes, and its results."""
        stored, known = self._stored, self._known
        for name in scheduler_output.finished_req_ids:
            stored.pop(name, None)
            known.pop(name, None)
        for name in scheduler_output.preempted_req_ids or ():
            stored.pop(name, None)
        for new in scheduler_output.scheduled_new_reqs:
            there = getattr(new, "prefill_token_ids", None) or new.prompt_token_ids
            known[new.req_id] = max(known.get(new.req_id, 0), len(there))
            stored[new.req_id] = new.num_computed_tokens
        cached = scheduler_output.scheduled_cached_reqs
        stored.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        steps = scheduler_output.num_scheduled_tokens
        decodes, *prompts = work_of((tokens, stored[name]) for name, tokens in steps.items())
        sampled: list[list[int]] = []
        for name, tokens in steps.items():
            stored[name] += tokens
            emits = stored[name] >= known[name]
            if emits:
                known[name] = stored[name] + 1
            sampled.append([self._token] if emits else [])
        names = list(steps)
        output = ModelRunnerOutput(names, {name: k for k, name in enumerate(names)}, sampled)
        one = round_of(decodes, sum(stored.values()), *prompts)
        return float(self._batch_time.durations(one)[0]) if names else 0.0, output
