"""Time Dynamo's offline replay of a workload, for comparison only.

This file is run by the Python of an environment that has ``ai-dynamo`` and ``ai-dynamo-runtime``;
this package need not be there. The workload is a file of Mooncake's format, one JSON object a line.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def replay(path: str, memory_limit: int) -> dict[str, Any]:
    """Replay the file on one simulated vLLM worker, as fast as it goes."""
    from dynamo.replay import run_trace_replay

    engine = {
        "engine": {
            "backend": "vllm",
            "num_gpu_blocks": memory_limit // 16,
            "block_size": 16,
            "max_num_seqs": 256,
            "max_num_batched_tokens": 2048,
            "enable_prefix_caching": False,
        }
    }
    began, worked = time.perf_counter(), time.process_time()
    report = run_trace_replay(
        path,
        extra_engine_args=engine,
        num_workers=1,
        replay_mode="offline",
        router_mode="round_robin",
        trace_block_size=512,
    )
    return {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - worked,
        "completed": report.summary["completed_requests"],
    }


if __name__ == "__main__":
    print(json.dumps(replay(sys.argv[1], int(sys.argv[2]))))
