"""Instance and schedule of a certificate: digest, feasibility and total latency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import numpy as np

from instances import Instance, MemoryRule, Workload
from instances.problem.memory_rule import TOKENS

from . import format as form
from . import limits

Problem = TypeVar("Problem", Instance, Workload)

Row = tuple[int, int, int]

Piece = tuple[int, int, int]
"""A run without pause: the round before its first, its last round, and tokens stored before it."""

ANY_PROMPTS = {"allow_zero_prompt_length": True}
"""Metadata that allow prompts of 0 tokens."""


@dataclass(frozen=True)
class Rows:
    """The instance that the proofs of a certificate are about, and the original one.

    **Memory in blocks.** If memory is counted in blocks, proofs are about a relaxed instance in
    tokens, for which every schedule of the original one is feasible. A request in blocks of B
    tokens that stores x + k tokens in its k-th round holds at least p + k tokens there. Here p = x
    if some x + k is a multiple of B. Otherwise all of its rounds fall into one block, and p + o is
    the end of this block.

    Requests with equal p and o hold the same blocks in every round. *Proof.* If p = x for both, x
    is the same. If one has p > x, all of its rounds fall into the block that ends with token p + o,
    so o < B. The other one stores p + o tokens at most, and more than p, so its rounds fall into
    this block too.

    **Replicas.** Proofs for K replicas are about one machine with K times the memory. *Why they
    bound the fleet.* All replicas have the same rounds, so round r of this machine can run all
    requests that the replicas run in round r. Each replica holds at most M, together K M. So every
    schedule of the fleet is a schedule of the machine, with the same total latency. If there are
    more replicas than requests, K is the number of requests.

    Attributes
    ----------
    rows, memory_limit : list of Row, int
        Arrival, prompt p and output o of each request, and the memory of all replicas together, in
        tokens.
    stored : list[int]
        Tokens that each request stores before its first token, to check that schedules are
        feasible.
    weights : list[int]
        Weight of the latency of each request.
    machines : int
        Number of replicas whose memory ``memory_limit`` contains.
    given : Instance
        The original instance.
    """

    rows: list[Row]
    memory_limit: int
    stored: list[int]
    weights: list[int]
    machines: int
    given: Instance


def read_instance(part: Any) -> Rows:
    """Read the instance of a certificate in rounds and recompute its digest.

    Raises
    ------
    MalformedCertificateError
        The part is not a valid instance.
    CertificateError
        The digest belongs to another instance.
    """
    given = read_problem(part, Instance.from_arrays, ("weights",))
    rule, size = given.memory_rule, given.memory_rule.block_size
    columns = given.arrival_times, given.prompt_lengths - rule.unstored, given.output_lengths
    arrivals, stored, outputs = (column.tolist() for column in columns)
    below = []
    for a, x, o in zip(arrivals, stored, outputs, strict=True):
        meets_an_end = (x + o) // size * size > x
        below.append((a, x if meets_an_end else -(-(x + o) // size) * size - o, o))
    machines = min(given.replicas, len(below))
    pooled = machines * (given.memory_limit // size * size)
    return Rows(below, pooled, stored, given.weights.tolist(), machines, given)


def read_problem(part: Any, make: Callable[..., Problem], optional: Sequence[str] = ()) -> Problem:
    """Read the requests and machines of a certificate and recompute their digest.

    Parameters
    ----------
    part : Any
        The JSON value; it is checked completely.
    make : Callable
        Creates the problem from columns of arrivals, prompts and outputs.
    optional : Sequence[str]
        Further optional keys of the part, passed on to ``make``.

    Raises
    ------
    MalformedCertificateError
        The part is not a valid problem.
    CertificateError
        The digest belongs to another problem.
    """
    names = ("memory_limit", "requests", "digest")
    form.keys_of(part, names, "instance", optional=("memory_rule", "replicas", *optional))
    rule: Any = part.get("memory_rule", {})
    form.keys_of(rule, (), "memory_rule", optional=[field.name for field in fields(MemoryRule)])
    listed = enumerate(form.list_of(part["requests"], "requests"))
    rows = [form.list_of(row, f"request {position}", 3) for position, row in listed]
    form.demand(len(rows) > 0, "there are no requests")
    arrivals, prompts, outputs = zip(*rows, strict=True)
    given: dict[str, Any] = {
        "arrival_times": arrivals,
        "prompt_lengths": prompts,
        "output_lengths": outputs,
    }
    for name, minimum in (("memory_limit", 1), ("replicas", 2)):
        if name in part:
            given[name] = form.whole(part[name], name, minimum)
    if "weights" in part:
        given["weights"] = form.list_of(part["weights"], "weights", len(rows))
    try:
        problem = make(**given, memory_rule=MemoryRule(**rule), metadata=ANY_PROMPTS)
    except (ValueError, TypeError) as error:
        raise form.MalformedCertificateError(f"instance: {error}") from error
    form.demand(type(part["digest"]) is str, f"digest: {form.shown(part['digest'])} is not a text")
    if part["digest"] != problem.digest:
        raise form.CertificateError(
            "digest does not belong to these requests and this memory_limit"
        )
    return problem


def instance_part(requests: Instance | Workload) -> dict[str, Any]:
    """Return the JSON object of an instance or workload in a certificate."""
    columns = (requests.arrival_times, requests.prompt_lengths, requests.output_lengths)
    part: dict[str, Any] = {
        "memory_limit": requests.memory_limit,
        "requests": [list(row) for row in zip(*(one.tolist() for one in columns), strict=True)],
        "digest": requests.digest,
    }
    if isinstance(requests, Instance) and requests.is_weighted:
        part["weights"] = requests.weights.tolist()
    if requests.memory_rule != TOKENS:
        part["memory_rule"] = asdict(requests.memory_rule)
    if requests.replicas > 1:
        part["replicas"] = requests.replicas
    return part


def total_latency(instance: Rows, document: Mapping[str, Any]) -> int:
    """Compute the weighted total latency of the schedule of a certificate, in rounds.

    A stretch, given by its first and last round, is a run without pause. Between stretches a
    request holds no memory and keeps its tokens. All stretches of a request are on its replica.

    Raises
    ------
    CertificateError
        The schedule is infeasible.
    MalformedCertificateError
        A part of the schedule is malformed.
    """
    assignment = _read_assignment(instance, document)
    where = "stretches" if "stretches" in document else "start_times"
    pieces: dict[int, list[Piece]] = {}
    total = 0
    for i, own in enumerate(_read_stretches(instance, document)):
        arrival, _, output = instance.rows[i]
        produced, previous = 0, arrival
        for first, last in own:
            form.demand(first <= last, f"{where}: round {last} is before {first}")
            if first <= previous:
                reason = "before it arrives" if not produced else f"again by round {previous}"
                raise form.CertificateError(f"{where}: request {i} starts {reason}")
            piece = (first - 1, last, instance.stored[i] + produced)
            pieces.setdefault(assignment[i], []).append(piece)
            produced, previous = produced + last - first + 1, last
        if produced != output:
            raise form.CertificateError(
                f"{where}: request {i} runs {produced} rounds, not {output}"
            )
        total += instance.weights[i] * (previous - arrival)
    for replica, on_replica in sorted(pieces.items()):
        place = where if instance.given.replicas == 1 else f"{where}: replica {replica}"
        _refuse_crowd(on_replica, instance, place)
    return total


def _read_assignment(instance: Rows, document: Mapping[str, Any]) -> list[int]:
    """Read the replica of each request; all are on replica 0 if there is only one."""
    is_given, n, K = "assignment" in document, len(instance.rows), instance.given.replicas
    reason = "is missing" if K > 1 else "is given, but there is one replica"
    form.demand(is_given == (K > 1), f"certificate: 'assignment' {reason}")
    assignment = form.wholes(document.get("assignment", [0] * n), "assignment", n)
    for i, replica in enumerate(assignment):
        reason = f"request {i} is on replica {replica} of {K}, numbered from 0"
        form.demand(replica < K, f"assignment: {reason}")
    return assignment


def _read_stretches(instance: Rows, document: Mapping[str, Any]) -> Iterable[Iterable[list[int]]]:
    """Read the stretches of each request; without preemption, each has one."""
    where, n = "stretches", len(instance.rows)
    if where not in document:
        starts = form.wholes(document["start_times"], "start_times", n)
        return ([[t + 1, t + o]] for (_, _, o), t in zip(instance.rows, starts, strict=True))
    listed = form.list_of(document[where], where, n)
    return ((form.wholes(one, where, 2) for one in form.list_of(own, where)) for own in listed)


def _refuse_crowd(pieces: list[Piece], instance: Rows, where: str) -> None:
    """Refuse pieces on one replica that exceed its memory limit in a round.

    A piece (t, end, held) runs in rounds t + 1 .. end and holds one more token in each. Memory
    grows until a piece ends, so the last round of each piece is enough.

    In round r a piece stores held + r - t tokens. Let held - t = x B + e with 0 <= e < B and B the
    tokens per block. Then the piece holds x blocks plus those of e + r tokens. Both numbers are
    summed over the pieces with equal e that run in round r: those that start before r, less those
    that end before r. Sums of many late starts may wrap in int64, but the differences fit, so they
    are right.
    """
    size = instance.given.memory_rule.block_size
    limit = instance.memory_limit // instance.machines // size
    unit = "tokens" if size == 1 else "blocks"
    starts, ends, held = np.array(pieces, dtype=np.int64).T
    rounds, remainders = np.unique(ends), (held - starts) % size
    kinds = np.unique(remainders).tolist()
    reason = f"{where}: its requests fill blocks in too many ways for this checker"
    form.refuse_above(limits.LARGEST_WORK, len(pieces) * len(kinds), reason)
    blocks = np.zeros(len(rounds), dtype=np.int64)
    for e in kinds:
        own = remainders == e
        whole = (held[own] - starts[own]) // size  # x
        for times, sign in ((starts[own], 1), (ends[own], -1)):
            order = np.argsort(times)
            count = np.searchsorted(times[order], rounds)
            sums = np.concatenate([[0], np.cumsum(whole[order])])
            blocks += sign * (sums[count] + count * -(-(e + rounds) // size))
    for k in np.flatnonzero(blocks > limit).tolist():
        reason = f"round {rounds[k]} holds {blocks[k]} of {limit} {unit}"
        raise form.CertificateError(f"{where}: {reason}")
