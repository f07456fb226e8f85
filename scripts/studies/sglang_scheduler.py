"""SGLang's own scheduler with the requests of a recording and no model.

To be imported where `record_sglang.prepare` has put stubs for what is not installed.
"""

from __future__ import annotations

from array import array
from collections import deque
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from sglang.srt import runtime_context
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.managers import scheduler as engine
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.registry import TreeCacheBuildContext, default_radix_cache_factory
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

VOCABULARY = 32_000
ANY_TOKEN, END_OF_SEQUENCE = 3, 2

OFF = (
    "enable_priority_scheduling",
    "schedule_low_priority_values_first",
    "enable_lora",
    "enable_hierarchical_cache",
    "enable_lmcache",
    "enable_hicache_storage",
    "enable_hisparse",
    "enable_unified_cache_external_linker",
    "attn_dp_enabled",
    "enable_unified_memory",
    "is_hybrid_swa",
    "is_hybrid_ssm",
    "require_mlp_sync",
    "enable_overlap_mlx",
    "enable_fpm",
    "abort_on_priority_when_disabled",
)
"""What the engine can do and is not asked to."""

ABSENT = (
    "dllm_config",
    "sliding_window_size",
    "max_new_tokens_limit",
    "draft_worker",
    "decode_offload_manager",
    "hisparse_coordinator",
    "min_free_slots_delayer",
    "dynamic_chunk_sizer",
    "truncation_align_size",
    "scripted_scheduler_hook",
    "lora_drainer",
    "metrics_collector",
    "max_queued_requests",
)
"""Parts that the engine does without."""

SILENT = (
    "metrics_reporter",
    "tp_worker",
    "model_worker",
    "output_streamer",
    "load_publisher",
    "load_inquirer",
    "kv_events_publisher",
    "pool_stats_observer",
    "future_map",
)
"""Parts that schedule nothing."""

IDLE = (
    "publish_load_snapshot",
    "_record_step_counters",
    "_maybe_clear_mm_inputs",
    "maybe_sleep_on_idle",
    "_apply_war_barrier",
    "launch_batch_sample_if_needed",
)
"""Methods that schedule nothing."""


class Nothing:
    """Part of the engine that schedules nothing: metrics, streams of output, workers."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


# It would look for a model and a device.
ServerArgs.__post_init__ = lambda self: None
engine.flush_trace_batch = Nothing()


class Recorder(engine.Scheduler):  # type: ignore[misc]
    """The engine's scheduler with requests of a recording and no model."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry
        named = (
            "page_size",
            "max_prefill_tokens",
            "max_running_requests",
            "schedule_policy",
            "schedule_conservativeness",
            "enable_mixed_chunk",
            "disable_radix_cache",
            "disable_overlap_schedule",
        )
        self.server_args = ServerArgs(
            model_path="none",
            device="cpu",
            attention_backend="torch_native",
            chunked_prefill_size=entry["chunked_prefill_size"] or -1,
            pp_max_micro_batch_size=entry["max_running_requests"],
            **{name: entry[name] for name in named},
        )
        ranks = runtime_context.SpawnRanks(world_rank=0)
        runtime_context.publish(self.server_args, role="scheduler", ranks=ranks)
        self.schedule_policy = entry["schedule_policy"]
        self.enable_overlap = not entry["disable_overlap_schedule"]
        self.max_prefill_tokens = entry["max_prefill_tokens"]
        self.max_running_requests = entry["max_running_requests"]
        self.make_memory(entry["max_total_tokens"], entry["page_size"])
        self.leave_out()
        with (
            patch.object(engine, "SessionController", Nothing()),
            patch.object(engine, "get_resolved_model_impl", Nothing()),
            patch.object(type(self), "init_beam_coordinator", Nothing()),
        ):
            self.init_running_status()
            self.init_chunked_prefill()
            self.init_schedule_policy()
            self.init_batch_result_processor()
        self.step = -1
        self.steps: list[list[Any]] = []
        self.launched: deque[list[Any]] = deque()
        self.retracted: list[int] = []
        arrivals = entry["arrival_steps"]
        self.to_come = deque(sorted(range(len(arrivals)), key=arrivals.__getitem__))
        self.unfinished = set(map(str, self.to_come))

    def make_memory(self, tokens: int, page: int) -> None:
        """Make the engine's pools and prefix cache, as a worker does."""
        self.device, self.page_size, self.kv_shard_widening = "cpu", page, 1
        self.max_total_num_tokens, self.max_req_len = tokens, tokens - 1
        pool = ReqToTokenPool(self.max_running_requests, tokens + 64, "cpu", False)
        if page == 1:
            allocator = TokenToKVPoolAllocator(tokens, torch.float16, "cpu", Nothing(), False)
        else:
            allocator = PagedTokenToKVPoolAllocator(
                tokens, page, torch.float16, "cpu", Nothing(), False
            )
            allocator.use_triton_kernels = False
        off = self.entry["disable_radix_cache"]
        context = TreeCacheBuildContext(
            server_args=self.server_args,
            params=CacheInitParams(off, pool, allocator, page),
            is_hybrid_swa=False,
            is_hybrid_ssm=False,
            enable_hierarchical_cache=False,
            disable_radix_cache=off,
            tp_worker=None,
            model_config=None,
            tp_size=1,
            tp_rank=0,
            tp_group=None,
        )
        self.tree_cache = default_radix_cache_factory(context)
        self.req_to_token_pool, self.token_to_kv_pool_allocator = pool, allocator

    def leave_out(self) -> None:
        """Switch off, or do nothing in, all that is not scheduling on one device."""
        self.disaggregation_mode = DisaggregationMode.NULL
        self.spec_algorithm = SpeculativeAlgorithm.NONE
        self.is_generation = True
        self.priority_scheduling_preemption_threshold = self.processed_tokens_counter = 0
        self._last_stall_publish_ts = 0
        self.model_config = SimpleNamespace(
            is_encoder_decoder=False,
            is_multimodal=False,
            vocab_size=VOCABULARY,
            self_opened_think_start_ids=None,
            think_end_ids=None,
        )
        for name in OFF:
            setattr(self, name, False)
        for name in ABSENT:
            setattr(self, name, None)
        for name in (*SILENT, *IDLE):
            setattr(self, name, Nothing())
        self.metrics_reporter = Nothing(num_generated_tokens=0, forward_ct_decode=0)
        self.scheduler_stage_metrics = MagicMock()
        self.grammar_manager = Nothing(has_waiting_grammars=lambda: False, grammar_queue=[])
        self.dllm_manager = Nothing(any_staging_reqs=lambda: False)
        self.dp_attn_adapter = Nothing(
            maybe_prepare_mlp_sync_batch=lambda batch, need_sync=False: batch,
            maybe_convert_decode_to_extend=lambda batch: batch,
        )
        self.ngram_embedding_manager = Nothing(prepare_for_forward=lambda batch, chunked_req: batch)
        self.invariant_checker = Nothing(_check_all_pools=lambda stats: (False, []))
        self.beam_coordinator = Nothing(
            pending_member_rows=lambda batch: 0, commit_decode=lambda batch: set()
        )

    def ingest_requests(self) -> None:
        """Begin a step: hand over the requests that arrive before it."""
        self.step += 1
        while self.to_come and self.entry["arrival_steps"][self.to_come[0]] <= self.step:
            i = self.to_come.popleft()
            sampling = SamplingParams(
                max_new_tokens=self.entry["max_new_tokens"][i],
                ignore_eos=self.entry["ignore_eos"],
            )
            sampling.normalize(None)
            prompt = array("q", [10 + i] * self.entry["prompt_lengths"][i])
            request = Req(str(i), "", prompt, sampling, eos_token_ids={END_OF_SEQUENCE})
            request.vocab_size = VOCABULARY
            self.init_req_max_new_tokens(request)
            self._add_request_to_queue(request)
        self.gracefully_exit = not self.unfinished

    def _add_request_to_queue(self, req: Any, is_retracted: bool = False) -> None:
        if is_retracted:
            self.retracted.append(int(req.rid))
        super()._add_request_to_queue(req, is_retracted)

    def get_next_batch_to_run(self, running_batch: Any, last_batch: Any) -> Any:
        """Let the engine plan a step, and note the plan."""
        self.retracted = []
        plan = super().get_next_batch_to_run(running_batch, last_batch)
        batch, rows = plan.batch_to_run, []
        if batch:
            extends = batch.forward_mode.is_extend()
            lengths = batch.extend_lens if extends else [1] * len(batch.reqs)
            rows = [[int(one.rid), tokens] for one, tokens in zip(batch.reqs, lengths, strict=True)]
        free = self.token_to_kv_pool_allocator.available_size()
        free += self.tree_cache.evictable_size()
        pages = (self.max_total_num_tokens - free) // self.page_size
        if rows or self.retracted:
            self.steps.append([self.step, rows, self.retracted, [], pages])
        return plan

    def run_batch(self, batch: Any) -> Any:
        """Run no model."""
        self.forward_ct += 1
        batch.forward_iter = self.forward_ct
        batch.prefill_input_ids_cpu = batch.mix_running_indices = batch.input_ids = None
        self.launched.append(self.steps[-1])
        return GenerationBatchResult(
            logits_output=None, next_token_ids=None, can_run_cuda_graph=False
        )

    def process_batch_result(self, batch: Any, result: Any) -> None:
        """Let the engine process made-up tokens, and note who got one."""
        row, emitted = self.launched.popleft(), [len(one.output_ids) for one in batch.reqs]
        lengths = [self.entry["output_lengths"][int(one.rid)] for one in batch.reqs]
        ends = [n + 1 >= end for n, end in zip(emitted, lengths, strict=True)]
        ended = ANY_TOKEN if self.entry["ignore_eos"] else END_OF_SEQUENCE
        result.next_token_ids = torch.tensor([ended if end else ANY_TOKEN for end in ends])
        super().process_batch_result(batch, result)
        for one, before in zip(batch.reqs, emitted, strict=True):
            if len(one.output_ids) > before:
                row[3].append(int(one.rid))
            if one.finished():
                assert len(one.output_ids) == self.entry["output_lengths"][int(one.rid)]
                self.unfinished.discard(one.rid)
