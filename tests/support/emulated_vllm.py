"""A worker of vLLM that computes nothing: a class that vLLM takes by name, of a checkout.

``PYTHONPATH=scripts:tests/support vllm serve MODEL --distributed-executor-backend
emulated_vllm.EmulatedExecutor --additional-config '{"batch_time": "affine:0.02,0.0001,0"}'``

With ``"asynchronous": true`` steps are planned before the results of the last one are there, as
vLLM does on GPUs.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from record_vllm_rounds import work_of
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput

from online.batch_time.measurements import round_of
from online.bridges.vllm import batch_time_of


class EmulatedExecutor(Executor):
    """A worker that computes nothing: every step takes as long as a batch time says.

    API server, engine core, scheduler and block manager are vLLM's own. Every token is the same,
    and outputs end at ``max_tokens``. Memory is ``--num-gpu-blocks-override``.
    """

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """Tell that a step may be planned before the results of the one before it are there."""
        return True

    def _init_executor(self) -> None:
        given = self.vllm_config.additional_config
        if "asynchronous" in given:
            self.scheduler_config.async_scheduling = given["asynchronous"]
        self._batch_time: Any = batch_time_of(given["batch_time"])
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
