"""A scheduler for vLLM that lets a policy decide. vLLM loads it by the name of its class.

``vllm serve MODEL --scheduler-cls online.bridges.vllm.PolicyScheduler --additional-config
'{"policy": "my_rules.py:Mine"}'``

`PolicyScheduler` lets a policy decide which requests start, are held or preempted, and how much of
a prompt is processed; vLLM does the rest. `vllm_metrics.RequestsLogger` records the requests.

Settings are keys of ``--additional-config``:

* ``policy``: the policy, in a form such as ``"mc-sf"`` or ``"my_rules.py:Mine"``;
* ``level``: the service level that the policy sees, as the fields of `ServiceLevel`;
* ``patience``: seconds for which the policy may let the engine idle while requests wait;
* ``batch_time``: model of the seconds of a step that the policy sees: a preset,
  ``affine:d0,d1,d2``, or the path of a CSV file of measured rounds.

The interface of vLLM's scheduler is not public, so it may change. This module is tested with the
versions `TESTED`. With another version it logs a warning when it starts. If a method that it needs
is missing, it raises an error.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any

try:
    from vllm.logger import init_logger
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.request_queue import FCFSRequestQueue, create_request_queue
    from vllm.version import __version__ as vllm_version
except ModuleNotFoundError as error:
    reason = f"online.bridges.vllm runs inside vLLM, of which {error.name!r} is not installed here"
    raise ModuleNotFoundError(reason, name=error.name) from None

from instances.errors import InvalidTypeError, InvalidValueError
from instances.problem.batches import BatchTime
from instances.service_level import ServiceLevel
from online.headroom.engine_settings import with_settings
from online.policy_interface.specs import PolicySpec

from .lead import Lead
from .vllm_metrics import PROMPT_SETTINGS, engine_settings

TESTED = ("0.32", "0.33")
"""Versions of vLLM in which recorded steps of the engine were compared with the simulation."""

PREDICTION = "predicted_output"
"""Key of a request's ``extra_args`` (``vllm_xargs`` of the API) with its predicted output: tokens,
or [least, most]. Without it the prediction is ``max_tokens``."""

USED = ("_reserve_prefill_lookahead", "_preempt_request", "_free_request")
"""Methods of vLLM's scheduler that this module calls or replaces, apart from ``schedule``."""

# vLLM formats the lines only of loggers whose names begin with "vllm".
_logger = init_logger(f"vllm.{__name__}")


def batch_time_of(text: str | None) -> BatchTime | None:
    """Return the batch time that ``text`` names: a preset, formula or file. None if it is None.

    Raises
    ------
    ValueError, OSError
        ``text`` does not define a batch time, or its file cannot be read.
    """
    from online.headroom.batch_times import FIT, find_batch_time

    if text is None:
        return None
    if text == FIT:
        raise InvalidValueError(None, "batch_time", text, "needs a log, which an engine has not")
    return find_batch_time(text, None)[0]


class Gate(FCFSRequestQueue):  # type: ignore[misc]
    """Waiting queue that offers the engine only the requests in ``let_in``."""

    def __init__(self) -> None:
        super().__init__()
        self.let_in: deque[Any] = deque()

    def __bool__(self) -> bool:
        return bool(self.let_in)

    def peek_request(self) -> Any:
        """Return the next request to admit."""
        return self.let_in[0]

    def pop_request(self) -> Any:
        """Remove the next request to admit and return it."""
        request = self.let_in.popleft()
        self.remove(request)
        return request


class PolicyScheduler(AsyncScheduler):  # type: ignore[misc]
    """vLLM's scheduler with a policy that chooses the requests; a step is a round.

    If the policy raises an error, makes an impossible decision or lets the engine idle too long,
    the engine continues with its own order, and logs one warning. The class derives from vLLM's
    asynchronous scheduler, which acts like the synchronous one if asynchronous scheduling is off.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        There is no policy, or it cannot control an engine, or this engine cannot be controlled.
    """

    clock: Callable[[], float] = staticmethod(time.monotonic)
    """Function that returns the clock time that policies see, in seconds."""

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)
        given = vllm_config.additional_config or {}
        self._policy = given.get("policy")
        try:
            _check_engine(vllm_config)
            self.lead: Lead | None = self._make_lead(given)
        except (TypeError, ValueError, OSError) as error:
            if parent_process() is None:
                raise
            # Under a server the engine runs in another process. There, log one line and exit,
            # because a traceback would be repeated by the server.
            _logger.error("%s", error)
            raise SystemExit(1) from None
        self.waiting = Gate()
        self._most_tokens: dict[str, int] = {}
        self._begun = self.clock()
        if not vllm_version.startswith(TESTED):
            told = "online.bridges.vllm was tested with vLLM %s, and this is %s"
            _logger.warning(told, " and ".join(TESTED), vllm_version)
        _logger.info("policy %s leads", self._policy)

    def _make_lead(self, given: dict[str, Any]) -> Lead:
        if not isinstance(self._policy, str):
            reason = 'is missing: --additional-config \'{"policy": "mc-sf"}\''
            raise InvalidTypeError(None, "policy", self._policy, reason)
        level = None if given.get("level") is None else ServiceLevel(**given["level"])
        own = engine_settings(self.vllm_config, None)
        policy = with_settings(PolicySpec.of(self._policy), "vllm", own).make()
        for name, free in PROMPT_SETTINGS.items():
            mine, theirs = getattr(policy, name, own[name]), own[name]
            if theirs not in (free, mine):
                reason = f"is not the engine's, {theirs}, which also delays prompts"
                raise InvalidValueError("policy", name, mine, reason)
        # One block of the engine, its null block, is never given to a request.
        blocks, patience = self.cache_config.num_gpu_blocks - 1, float(given.get("patience", 1.0))
        seconds = batch_time_of(given.get("batch_time"))
        return Lead(
            policy, blocks, self.block_size, level=level, batch_time=seconds, patience=patience
        )

    def add_request(self, request: Any) -> None:
        """Add a request to the engine; the policy sees it at the next step."""
        is_new = request.request_id not in self.requests
        super().add_request(request)
        if is_new and self.lead is not None:
            told = (request.sampling_params.extra_args or {}).get(PREDICTION)
            name, now = request.request_id, self.clock() - self._begun
            lengths = request.num_prompt_tokens, request.max_tokens
            if not self.lead.arrive(name, now, lengths, told):
                what = "%s is neither tokens nor [least, most] in some request: max_tokens counts"
                _logger.warning_once(what, PREDICTION)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self.lead is not None:
            self.lead.end(request.request_id)
        return super()._free_request(request, *args, **kwargs)

    def _reserve_prefill_lookahead(self, request: Any, *args: Any, **kwargs: Any) -> int:
        # vLLM calls this method for each request to get its number of tokens in the step. A result
        # of 0 holds the request, and a result below its remaining prompt cuts the prompt.
        tokens: int = super()._reserve_prefill_lookahead(request, *args, **kwargs)
        return min(tokens, self._most_tokens.get(request.request_id, tokens))

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Plan a step in which only requests chosen by the policy are admitted and advance."""
        if self.lead is None:
            return super().schedule(*args, **kwargs)
        try:
            running = {request.request_id: request for request in self.running}
            orders = self.lead.orders(self.clock() - self._begun, running)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a policy raises)
            self._go_on_alone(error)
            return super().schedule(*args, **kwargs)
        if self.lead.evicted:
            what = "policy %s evicts: an engine cannot take back tokens, and preempts instead"
            _logger.warning_once(what, self._policy)
        for name in orders.preempt:
            self.running.remove(running[name])
            self._preempt_request(running[name], time.monotonic())
        self._most_tokens = orders.most_tokens
        admitted = [name for name in orders.start if orders.most_tokens.get(name, 1)]
        self.waiting.let_in.extend(self.requests[name] for name in admitted)
        output = super().schedule(*args, **kwargs)
        tokens = output.num_scheduled_tokens
        self.waiting.let_in.clear()
        found = {name: self.requests[name].num_computed_tokens - n for name, n in tokens.items()}
        try:
            self.lead.ran(tokens, {name: found[name] for name in orders.start if name in tokens})
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a policy has caused)
            self._go_on_alone(error)
        return output

    def _go_on_alone(self, error: BaseException) -> None:
        """Restore the engine's own queue and warn that the policy no longer controls it."""
        self.lead, self._most_tokens = None, {}
        waiting = sorted(self.waiting, key=lambda request: request.arrival_time)
        self.waiting = create_request_queue(self.policy)
        for request in waiting:
            self.waiting.add_request(request)
        what = "policy %s has failed, so the engine continues in its own order: %s: %s"
        _logger.warning(what, self._policy, type(error).__name__, " ".join(str(error).split()))


def _check_engine(vllm_config: Any) -> None:
    """Raise an error if the engine has a feature that rounds of a policy do not describe.

    Raises
    ------
    InvalidValueError
        The engine has a feature that a policy cannot control; the message names it.
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
            raise InvalidValueError(None, "engine", what, "cannot be controlled by a policy")
