"""The requests of a certificate, as both kinds of certificates hold them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from instances import Instance, Workload
from instances.problem.memory_rule import TOKENS


def instance_part(requests: Instance | Workload) -> dict[str, Any]:
    """Return requests as they stand in a certificate: `read_certificate`."""
    columns = (requests.arrival_times, requests.prompt_lengths, requests.output_lengths)
    rule = requests.memory_rule
    weights: dict[str, list[int]] = {}
    if isinstance(requests, Instance) and requests.is_weighted:
        weights["weights"] = requests.weights.tolist()
    return {
        "memory_limit": requests.memory_limit,
        "requests": [list(row) for row in zip(*(one.tolist() for one in columns), strict=True)],
        "digest": requests.digest,
        **weights,
        **({} if rule == TOKENS else {"memory_rule": asdict(rule)}),
    }
