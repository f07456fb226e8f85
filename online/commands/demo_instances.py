"""The demo: instances small enough to be proved at once, and policies to compare on them."""

from __future__ import annotations

import instances
from instances import Instance

POLICIES = ("smallest-volume-first", "mc-sf", "sorted-f-swap", "fcfs", "sglang", "vllm")
"""Run unless --policy says otherwise: two orders of the queue, batches chosen ahead, first come
first served, and two serving engines."""

SEEDS = {
    "arrival-model-1": {6: (0, 1, 3, 4, 5), 8: (3, 5)},
    "arrival-model-2": {6: (0, 1, 2, 5), 8: (2,)},
}
"""Generator, n and seeds. Draws that take the solver more than a few seconds were left out, and
those are the contended ones: the demo's averages say nothing about the families."""


def demo_instances() -> list[Instance]:
    """[W25] Example 1, identical requests, and draws of [J25]'s Arrival Models 1 and 2."""
    found = [
        Instance.from_arrays(
            [63] + [1] * 21, [1] + [2] * 21, memory_limit=64, name="[W25] Example 1"
        ),
        Instance.from_arrays([2] * 12, [6] * 12, memory_limit=30, name="12 x (s=2, o=6)"),
    ]
    for generator, draws in SEEDS.items():
        for n, seeds in draws.items():
            found.extend(instances.generate(generator, seed, n=n) for seed in seeds)
    return found
