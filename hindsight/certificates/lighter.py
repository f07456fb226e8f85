"""Certificates that take less work to check, and prove the same bound.

A proof by paths tells requests apart stage by stage (`hindsight.certificates.path_replay`). After
each stage the solver improves start prices, and keeps the graphs small that it builds next. The
checker has these prices from the start: where a stage drops few nodes, it is less work to follow
the requests of the next one at once. The order of all stages stays, and so does what they price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from hindsight.runtime.clock import never

from .checking import read_proof
from .format import CertificateError
from .path_proof import PathProof

TOLD_APART = ("followed", "tracked")

EPOCH = 100_000
"""Numbers visited in the time that an epoch of a stage takes if it has next to no nodes."""


def lighter(document: Mapping[str, Any], should_stop: Callable[[], bool] = never) -> dict[str, Any]:
    """Tell requests apart in fewer stages of a proof by paths, where that takes less work to check.

    Stages are joined from the last one on, each with the one before it, where a check then visits
    fewer numbers and proves the same bound.

    Parameters
    ----------
    document : Mapping[str, Any]
        A certificate, as `hindsight.certificates.format.read_certificate` returns it. One of any
        other proof stays as it is.
    should_stop : callable, optional
        Polled throughout; the best document so far is returned.

    Returns
    -------
    dict[str, Any]
        The document with its new proof.
    """
    best = dict(document)
    if best["proof"].get("kind") != "path-search":
        return best
    work = _work(best, should_stop)
    telling = [k for k, stage in enumerate(best["proof"]["stages"]) if _tells_apart(stage)]
    for at, position in reversed([*pairwise(telling)]):
        if work is None or should_stop():
            break
        stages = _joined(best["proof"]["stages"], at, position)
        joined = {**best, "proof": {**best["proof"], "stages": stages}}
        less = _work(joined, should_stop, work)
        if less is not None:
            best, work = joined, less
    return best


def _tells_apart(stage: Mapping[str, Any]) -> bool:
    return any(stage[key] for key in TOLD_APART)


def _joined(stages: list[dict[str, Any]], at: int, position: int) -> list[dict[str, Any]]:
    """Tell apart at one stage what a later one does; prices of these requests are 0 in between."""
    more = stages[position]["followed"]
    changed: list[dict[str, Any]] = []
    followed: list[int] = []
    for k, stage in enumerate(stages):
        priced = dict(zip(sorted(followed), stage["start_prices"], strict=True))
        if at < k <= position:
            priced |= dict.fromkeys(more, 0)
        changed.append({**stage, "start_prices": [priced[i] for i in sorted(priced)]})
        followed += stage["followed"]
    for key in TOLD_APART:
        changed[at][key] = sorted([*stages[at][key], *stages[position][key]])
        changed[position][key] = []
    return changed


def _work(
    document: Mapping[str, Any], should_stop: Callable[[], bool], most: int | None = None
) -> int | None:
    """Return the work of a check in numbers visited; None if it is ``most`` or more.

    None as well if the proof does not hold, or the check is stopped.
    """
    proof = read_proof(document)
    assert isinstance(proof, PathProof)
    proof.should_stop = lambda: should_stop() or (most is not None and proof.work >= most)
    try:
        proof.bound()
    except CertificateError:
        return None
    graphs = sum(map(_tells_apart, document["proof"]["stages"]))
    work: int = proof.work + EPOCH * graphs * proof.epochs
    return work if most is None or work < most else None
