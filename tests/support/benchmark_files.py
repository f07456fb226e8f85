"""Runs as the files that vLLM's serving benchmark would have left of them."""

from __future__ import annotations

import json

import numpy as np

from online import Run


def vllm_bench_of(run: Run) -> str:
    """A completed run in seconds, seen by a client without delays."""
    owners, gaps = run.inter_token_latencies
    own = np.split(gaps, np.searchsorted(owners, np.arange(1, len(run.problem.output_lengths))))
    first = run.first_token_times - run.problem.arrival_times
    return json.dumps(
        {
            "request_throughput": 1.0,
            "start_times": run.problem.arrival_times.tolist(),
            "input_lens": run.problem.prompt_lengths.tolist(),
            "output_lens": run.problem.output_lengths.tolist(),
            "ttfts": first.tolist(),
            "itls": [one.tolist() for one in own],
            "errors": [""] * len(own),
        }
    )
