"""Instance and schedule of a certificate: digest, feasibility and total latency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from instances import Instance, MemoryRule, Workload
from instances.problem.memory_rule import TOKENS

from . import format as form
from . import limits

Problem = TypeVar("Problem", Instance, Workload)

Row = tuple[int, int, int]

Piece = tuple[int, int, int]
"""A run of a request without pause: round before it, its last round, tokens stored before it."""

ANY_PROMPTS = {"allow_zero_prompt_length": True}
"""Metadata with which an instance or workload accepts prompts of 0 tokens."""


@dataclass(frozen=True)
class Rows:
    """The instance in tokens that the proof of a certificate is about, and the original instance.

    **Memory in blocks.** If memory is counted in blocks of B tokens, proofs are about a relaxed
    instance in tokens, for which every schedule of the original one is feasible. Let a request
    store x + k tokens in its k-th round, k = 1 .. o. In the relaxed instance, its prompt p is the
    largest number for which the blocks that it holds in each of these rounds have room for p + k
    tokens. The k-th round *falls into* the block with token x + k, the last token stored then. If
    some x + k is a multiple of B, p = x. Otherwise all rounds fall into one block, and p + o is the
    number of tokens up to the end of this block.

    Requests with equal p and o hold the same blocks in every round. *Proof.* If p = x for both, x
    is the same. If one has p > x, all of its rounds fall into the block that ends with token p + o,
    and o < B. The other one has p > x too, so that all of its rounds fall into this block as well,
    or p = x. Then it stores p + 1 .. p + o tokens, which fall into this block because o < B.

    **Replicas.** Proofs for K replicas are about one machine with K times the memory. *Why they
    bound the fleet.* All replicas have the same rounds, so round r of this machine can run all
    requests that the replicas run in round r: each replica holds at most M tokens, so together they
    hold at most K M. So every schedule of the fleet is a schedule of the machine, with the same
    total latency. If there are more replicas than requests, K is the number of requests.

    Attributes
    ----------
    rows : list of Row
        Arrival, prompt p and output o of each request of the relaxed instance.
    memory_limit : int
        Memory limits of all replicas together, in tokens.
    stored : list[int]
        Tokens x that each request stores before it emits its first token, under the memory rule of
        the original instance. The check that a schedule is feasible uses these numbers.
    weights : list[int]
        Weight of the latency of each request.
    machines : int
        Number of replicas whose memory limits add up to ``memory_limit``.
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
    """Read the instance of a certificate in rounds and check its digest.

    Raises
    ------
    MalformedCertificateError
        The JSON value ``part`` is not a valid instance.
    CertificateError
        The digest in ``part`` belongs to another instance.
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
    """Read the instance or workload of a certificate and check its digest.

    Parameters
    ----------
    part : Any
        JSON value of the key ``instance``, which is checked completely.
    make : Callable
        Function or class that makes the instance or workload from columns of arrivals, prompts and
        outputs. Its result is returned.
    optional : Sequence[str]
        Keys that ``part`` may have in addition. Their values are passed on to ``make``.

    Raises
    ------
    MalformedCertificateError
        The JSON value ``part`` is not a valid instance or workload.
    CertificateError
        The digest in ``part`` belongs to other requests or machines.
    """
    names = ("memory_limit", "requests", "digest")
    form.keys_of(part, names, "instance", optional=("memory_rule", "replicas", *optional))
    rule: Any = part.get("memory_rule", {})
    # The checker computes memory from these fields of a memory rule. It must refuse other fields.
    counted = ("block_size", "emitted_token", "prompt_allocation")
    form.keys_of(rule, (), "memory_rule", optional=counted)
    listed = enumerate(form.list_of(part["requests"], "requests"))
    rows = [form.list_of(row, f"request {position}", 3) for position, row in listed]
    form.demand(len(rows) > 0, "there are no requests")
    columns = ("arrival_times", "prompt_lengths", "output_lengths")
    given: dict[str, Any] = dict(zip(columns, zip(*rows, strict=True), strict=True))
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
    reason = "digest does not belong to these requests and this memory_limit"
    form.demand(part["digest"] == problem.digest, reason, form.CertificateError)
    return problem


def instance_part(requests: Instance | Workload) -> dict[str, Any]:
    """Return an instance or workload as the JSON object that a certificate contains."""
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

    Check also that the schedule is feasible. The certificate has its start times or, if requests
    may be preempted, its stretches. A stretch is a run of a request without pause, given by its
    first and last round. Between stretches a request holds no memory and keeps its tokens. All
    stretches of a request are on one replica.

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
        reason = f"{where}: request {i} runs {produced} rounds, not {output}"
        form.demand(produced == output, reason, form.CertificateError)
        total += instance.weights[i] * (previous - arrival)
    for replica, on_replica in sorted(pieces.items()):
        place = where if instance.given.replicas == 1 else f"{where}: replica {replica}"
        _refuse_crowd(on_replica, instance, place)
    return total


def _read_assignment(instance: Rows, document: Mapping[str, Any]) -> list[int]:
    """Read the number of the replica of each request, which is 0 if there is only one replica."""
    is_given, n, K = "assignment" in document, len(instance.rows), instance.given.replicas
    reason = "is missing" if K > 1 else "is given, but there is one replica"
    form.demand(is_given == (K > 1), f"certificate: 'assignment' {reason}")
    assignment = form.wholes(document.get("assignment", [0] * n), "assignment", n)
    for i, replica in enumerate(assignment):
        reason = f"request {i} is on replica {replica} of {K}, numbered from 0"
        form.demand(replica < K, f"assignment: {reason}")
    return assignment


def _read_stretches(instance: Rows, document: Mapping[str, Any]) -> Iterable[Iterable[list[int]]]:
    """Read the first and last round of each stretch (run without pause) of each request.

    The result has the stretches of one request after the other. If the certificate has start times,
    each request has one stretch, which follows from its start time and its output length.
    """
    where, n = "stretches", len(instance.rows)
    if where not in document:
        starts = form.wholes(document["start_times"], "start_times", n)
        return ([[t + 1, t + o]] for (_, _, o), t in zip(instance.rows, starts, strict=True))
    listed = form.list_of(document[where], where, n)
    return ((form.wholes(one, where, 2) for one in form.list_of(own, where)) for own in listed)


def _refuse_crowd(pieces: list[Piece], instance: Rows, where: str) -> None:
    """Raise CertificateError if the runs on one replica exceed its memory limit in a round.

    A piece (t, end, held), see `Piece`, is a run of a request without pause in rounds t + 1 .. end.
    It stores ``held`` tokens before, and one more in each round. So the memory in use grows until
    some piece ends, and it is enough to check the last round of each piece.

    In round r a piece stores held + r - t tokens. Let held - t = x B + e with 0 <= e < B and B the
    tokens per block: e is the *block offset* of the piece. Then the piece holds x blocks plus those
    that e + r tokens need. Both numbers of blocks are summed over the pieces with equal e that run
    in round r: the sum over the pieces with t < r, minus the sum over the pieces with end < r. With
    many late starts, these sums may wrap in int64. Their difference fits into int64, so it is
    right. The work grows with (number of pieces) * (number of different e), which is limited.
    """
    size = instance.given.memory_rule.block_size
    limit = instance.memory_limit // instance.machines // size
    unit = "tokens" if size == 1 else "blocks"
    starts, ends, held = np.array(pieces, dtype=np.int64).T
    rounds, remainders = np.unique(ends), (held - starts) % size
    kinds = np.unique(remainders).tolist()
    reason = f"{where}: {len(pieces)} runs * {len(kinds)} block offsets > {limits.LARGEST_WORK:,}"
    form.refuse_above(limits.LARGEST_WORK, len(pieces) * len(kinds), reason)
    blocks = np.zeros(len(rounds), dtype=np.int64)
    for e in kinds:
        own = remainders == e
        # A piece that runs from round t + 1 on has stored ``held`` tokens before, and stores held +
        # r - t in round r. Let held - t = x * size + e, with ``size`` the tokens per block and 0 <=
        # e < size. ``whole`` has x, which may be negative.
        whole = (held[own] - starts[own]) // size
        for times, sign in ((starts[own], 1), (ends[own], -1)):
            order = np.argsort(times)
            count = np.searchsorted(times[order], rounds)
            sums = np.concatenate([[0], np.cumsum(whole[order])])
            blocks += sign * (sums[count] + count * -(-(e + rounds) // size))
    for k in np.flatnonzero(blocks > limit).tolist():
        reason = f"round {rounds[k]} holds {blocks[k]} of {limit} {unit}"
        raise form.CertificateError(f"{where}: {reason}")
