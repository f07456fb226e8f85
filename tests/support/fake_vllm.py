"""A small stand-in for vLLM: the classes that are taken from it, without the rest.

The scheduler plans a step by the engine's rules. Running requests come first, and the last of them
gives way if blocks are missing. Then requests are admitted, up to the first whose prompt does not
fit as a whole.
"""

from __future__ import annotations

import functools
import itertools
import logging
import sys
from collections import deque
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

USERS = ("online.bridges.vllm", "online.bridges.vllm_metrics", "record_vllm_rounds")
"""Modules that import vLLM."""

Reason = Enum("Reason", ["STOP", "LENGTH", "ABORT"])


class FCFSRequestQueue(deque):
    def add_request(self, request: Any) -> None:
        self.append(request)

    def prepend_request(self, request: Any) -> None:
        self.appendleft(request)

    def prepend_requests(self, requests: Any) -> None:
        self.extendleft(requests)

    def peek_request(self) -> Any:
        return self[0]

    def pop_request(self) -> Any:
        return self.popleft()

    def remove_requests(self, requests: Any) -> None:
        for request in requests:
            if request in self:
                self.remove(request)


class Request:
    numbers = itertools.count()

    def __init__(self, name: str, prompt: int, output: int, extra_args: Any = None) -> None:
        self.request_id, self.num_prompt_tokens, self.max_tokens = name, prompt, output
        self.sampling_params = SimpleNamespace(extra_args=extra_args)
        self.num_output_tokens = self.num_computed_tokens = self.preemptions = 0
        self.arrival_time = 1000.0 + next(self.numbers)
        self.reason: Reason | None = None

    def get_finished_reason(self) -> Any:
        return self.reason

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + self.num_output_tokens


class Scheduler:
    def __init__(self, vllm_config: Any, *_: Any, **__: Any) -> None:
        self.vllm_config = vllm_config
        self.cache_config = vllm_config.cache_config
        self.scheduler_config = vllm_config.scheduler_config
        self.block_size = self.cache_config.block_size
        self.max_num_scheduled_tokens = self.scheduler_config.max_num_batched_tokens
        self.max_num_running_reqs = self.scheduler_config.max_num_seqs
        self.policy = "fcfs"
        self.waiting: Any = FCFSRequestQueue()
        self.running: list[Request] = []
        self.requests: dict[str, Request] = {}

    def _free(self) -> int:
        held = (-(-one.num_computed_tokens // self.block_size) for one in self.running)
        return self.cache_config.num_gpu_blocks - 1 - sum(held)

    def _needs(self, request: Request, tokens: int) -> int:
        held = -(-request.num_computed_tokens // self.block_size)
        return -(-(request.num_computed_tokens + tokens) // self.block_size) - held

    def has_unfinished_requests(self) -> bool:
        return bool(self.requests)

    def add_request(self, request: Request) -> None:
        self.requests[request.request_id] = request
        self.waiting.add_request(request)

    def _reserve_prefill_lookahead(self, request: Request, computed: int, tokens: int) -> int:
        return tokens

    def _preempt_request(self, request: Request, timestamp: float) -> None:
        request.num_computed_tokens, request.preemptions = 0, request.preemptions + 1
        self.waiting.prepend_request(request)

    def schedule(self, *_: Any, **__: Any) -> Any:
        budget, planned, forced = self.max_num_scheduled_tokens, {}, False
        place = 0
        while place < len(self.running) and budget:
            one = self.running[place]
            tokens = min(one.num_tokens - one.num_computed_tokens, budget)
            tokens = self._reserve_prefill_lookahead(one, one.num_computed_tokens, tokens)
            while tokens and self._needs(one, tokens) > self._free():
                victim, forced = self.running.pop(), True
                self._preempt_request(victim, 0.0)
                tokens = 0 if victim is one else tokens
            if place >= len(self.running):
                break
            if tokens:
                planned[one.request_id] = tokens
                one.num_computed_tokens += tokens
                budget -= tokens
            place += 1
        while self.waiting and budget and not forced:
            one = self.waiting.peek_request()
            full = len(self.running) >= self.max_num_running_reqs
            tokens = self._reserve_prefill_lookahead(one, 0, min(one.num_tokens, budget))
            if full or not tokens or self._needs(one, one.num_tokens) > self._free():
                break
            self.running.append(self.waiting.pop_request())
            planned[one.request_id] = one.num_computed_tokens = tokens
            budget -= tokens
        return SimpleNamespace(num_scheduled_tokens=planned)

    def update_from_output(self, output: Any, _: Any) -> None:
        for name in output.num_scheduled_tokens:
            one = self.requests.get(name)
            if one is None or one.num_computed_tokens < one.num_tokens:
                continue
            one.num_output_tokens += 1
            if one.num_output_tokens == one.max_tokens:
                self.finish(one, Reason.LENGTH)

    def finish(self, request: Request, reason: Any) -> None:
        request.reason = reason
        if request in self.running:
            self.running.remove(request)
        else:
            self.waiting.remove_requests([request])
        self._free_request(request)

    def _free_request(self, request: Request) -> None:
        del self.requests[request.request_id]


def configuration(blocks: int = 12, size: int = 16, **options: Any) -> Any:
    """An engine's configuration, of which ``options`` are the additional part."""
    return SimpleNamespace(
        additional_config=options,
        cache_config=SimpleNamespace(
            block_size=size, num_gpu_blocks=blocks + 1, enable_prefix_caching=False
        ),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=8192,
            max_num_seqs=256,
            async_scheduling=False,
            scheduler_cls=None,
            watermark=0.0,
            long_prefill_token_threshold=0,
            long_prefill_token_threshold_adaptive=False,
            enable_chunked_prefill=True,
            prefill_schedule_interval=1,
            scheduler_reserve_full_isl=True,
        ),
        model_config=SimpleNamespace(runner_type="generate", is_encoder_decoder=False),
        parallel_config=SimpleNamespace(pipeline_parallel_size=1),
        speculative_config=None,
        kv_transfer_config=None,
    )


def _logger(name: str) -> Any:
    """A logger that can warn once."""
    logger: Any = logging.getLogger(name)
    logger.warning_once = functools.cache(logger.warning)
    return logger


def install(monkeypatch: pytest.MonkeyPatch, version: str = "0.33.0") -> None:
    """Put the stand-in where ``import vllm`` looks, until the test ends."""
    named: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.v1": {},
        "vllm.v1.core": {},
        "vllm.v1.core.sched": {},
        "vllm.logger": {"init_logger": _logger},
        "vllm.v1.core.sched.async_scheduler": {"AsyncScheduler": Scheduler},
        "vllm.v1.core.sched.request_queue": {
            "FCFSRequestQueue": FCFSRequestQueue,
            "create_request_queue": lambda _: FCFSRequestQueue(),
        },
        "vllm.v1.metrics": {},
        "vllm.v1.metrics.loggers": {"StatLoggerBase": object},
        "vllm.version": {"__version__": version},
    }
    for name, members in named.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    for name in USERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
