"""Record the decisions of vLLM's own scheduler, for `scripts/replay_recordings.py`.

Runs inside an environment that has vLLM: `make test-vllm` makes it. The scheduler and its block
manager are vLLM's own. There is no model: whoever has processed its prompt is answered with one
made-up token a step, and with asynchronous scheduling a step late.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer
from write_tiny_model import write_configuration

from online.commands.console import run, say
from studies.engine_recordings import FURTHER_SETTINGS

ORIGIN = (
    "decisions of the scheduler of vLLM {version} (https://github.com/vllm-project/vllm), "
    "Apache-2.0; made-up requests"
)
LONGEST = 4096
TOKEN = 7


def make_scheduler(work: dict[str, Any], folder: str) -> Any:
    """Make vLLM's scheduler with the settings of a recording, and no model."""
    import torch
    from vllm import EngineArgs
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    size, blocks = work["block_size"], work["num_blocks"] + 1
    config = EngineArgs(
        model=folder,
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=LONGEST,
        async_scheduling=False,
        enable_prefix_caching=work["prefix_caching"],
    ).create_engine_config()
    # Set here, as the engine refuses budgets below `max_num_seqs` and rounds blocks up on a CPU.
    config.cache_config.block_size, config.cache_config.num_gpu_blocks = size, blocks
    knobs = {name: work[name] for name in FURTHER_SETTINGS if name in work}
    knobs.pop("order", None)
    for name in ("max_num_batched_tokens", "max_num_seqs", "watermark"):
        knobs[name] = work[name]
    for name, value in knobs.items():
        if not hasattr(config.scheduler_config, name):
            raise AttributeError(f"this vLLM has no {name}")
        setattr(config.scheduler_config, name, value)
    spec = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    groups = KVCacheConfig(blocks, [], [KVCacheGroupSpec(["layer"], spec)])
    kind = AsyncScheduler if work["async_scheduling"] else Scheduler
    return kind(config, groups, StructuredOutputManager(config), size)


def make_requests(work: dict[str, Any]) -> list[tuple[int, Any]]:
    """Make the requests of a recording, each with the step before which it arrives."""
    from vllm import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.request import Request

    init_none_hash(sha256)
    hasher = get_request_block_hasher(work["block_size"], sha256)
    rows = zip(work["prompt_lengths"], work["output_lengths"], work["arrival_steps"], strict=True)
    requests = []
    for number, (prompt, output, arrival) in enumerate(rows):
        requests.append(
            Request(
                request_id=str(number),
                # No two prompts share a block.
                prompt_token_ids=[1000 + number] * prompt,
                sampling_params=SamplingParams(max_tokens=output, ignore_eos=True),
                pooling_params=None,
                arrival_time=float(arrival) + number / 1e6,
                priority=output if work.get("order") == "shortest-output" else 0,
                block_hasher=hasher,
            )
        )
        requests[-1].sampling_params.update_from_generation_config({}, None)
    order = sorted(range(len(requests)), key=lambda number: work["arrival_steps"][number])
    return [(work["arrival_steps"][number], requests[number]) for number in order]


def record(work: dict[str, Any], folder: str) -> list[list[Any]]:
    """Run a workload; returns its steps as a recording has them."""
    from vllm.v1.outputs import ModelRunnerOutput

    scheduler, coming = make_scheduler(work, folder), deque(make_requests(work))
    pool = scheduler.kv_cache_manager.block_pool
    late = int(work["async_scheduling"])
    answers: deque[tuple[Any, Any]] = deque()
    steps: list[list[Any]] = []
    while coming or answers or scheduler.has_unfinished_requests():
        while coming and coming[0][0] <= len(steps):
            scheduler.add_request(coming.popleft()[1])
        output = scheduler.schedule()
        tokens = output.num_scheduled_tokens
        emitted = [name for name in tokens if not scheduler.requests[name].is_prefill_chunk]
        gone = sorted(int(name) for name in output.preempted_req_ids or ())
        in_use = work["num_blocks"] - pool.get_num_free_blocks()
        scheduled = [[int(name), count] for name, count in tokens.items()]
        steps.append([len(steps), scheduled, gone, [int(name) for name in emitted], in_use])
        if tokens:
            sampled = [[TOKEN] if name in emitted else [] for name in tokens]
            places = {name: place for place, name in enumerate(tokens)}
            answers.append((output, ModelRunnerOutput(list(tokens), places, sampled)))
        while len(answers) > (late if tokens else 0):
            scheduler.update_from_output(*answers.popleft())
    return steps


def record_vllm_decisions(
    works: Annotated[Path, typer.Argument(help="Recordings; their steps are not read.")],
    file: Annotated[Path, typer.Argument(help="Gets the same workloads with this vLLM's steps.")],
) -> int:
    """Run the workloads of recordings through the installed vLLM's own scheduler."""
    for name in ("VLLM_NO_USAGE_STATS", "HF_HUB_OFFLINE"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from vllm.version import __version__ as version

    recordings = json.loads(works.read_text(encoding="utf-8"))
    origin = ORIGIN.format(version=version.partition("+")[0])
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        write_configuration(Path(folder))
        for work in recordings:
            entry = work | {"origin": origin, "steps": record(work, folder)}
            lines.append(json.dumps(entry, separators=(",", ":")))
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    say(f"{len(lines)} recordings of vLLM {version}")
    return 0


if __name__ == "__main__":
    run(record_vllm_decisions)
