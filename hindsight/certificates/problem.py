"""Instance and schedule of a certificate: digest, feasibility and total latency."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from instances import Instance, MemoryRule, Workload
from instances.problem.memory_rule import TOKENS

from .format import (
    CertificateError,
    MalformedCertificateError,
    keys_of,
    list_of,
    shown,
    whole,
    wholes,
)

Problem = TypeVar("Problem", Instance, Workload)

Row = tuple[int, int, int]

Piece = tuple[int, int, int]
"""A run without pause: the round before its first, its last round, and tokens held before it."""

ANY_PROMPTS: dict[str, Any] = {"metadata": {"allow_zero_prompt_length": True}}


@dataclass(frozen=True)
class Rows:
    """The instance of a certificate: (arrival, prompt, output) of each request, and M.

    If memory is not counted in tokens, the rows are those of a relaxed instance in tokens, for
    which every schedule is feasible: a request in blocks of B that stores x + k tokens at its k-th
    holds at least p + k, with p = x or, if no x + k is a multiple of B, what its last block leaves.
    Requests with equal p and o hold the same in every round. If p = x for both, x is the same. If
    one has p > x, it never fills its last block, which ends with token p + o: so o < B, and the
    other, which stores at most p + o tokens, is within that block all the time too.

    Proofs for K replicas are about one machine with K times the memory. *Why they bound the fleet.*
    All replicas have the same rounds, of a fixed length, so round r of this machine can run all
    requests that the replicas run in round r. Each replica holds at most M, all together K M. So
    every schedule of the fleet is a schedule of the machine, with the same total latency. If there
    are more replicas than requests, K is the number of requests.

    Attributes
    ----------
    rows, memory_limit
        The instance that the proofs are about; its memory is that of all replicas together.
    digest : str
        Digest of the original instance.
    block_size, stored
        Tokens per block, and tokens that each request stores before its first token; used to check
        that schedules are feasible.
    memory_rule : str
        How the memory rule differs from counting tokens; empty if it does not.
    weights : list[int]
        Weight of the latency of each request.
    replicas, machines : int
        Number of replicas, each with the same memory, and the number of them whose memory is in
        `memory_limit`: at most the number of requests.
    """

    rows: list[Row]
    memory_limit: int
    digest: str
    block_size: int
    stored: list[int]
    memory_rule: str
    weights: list[int]
    replicas: int
    machines: int


def read_instance(part: Any) -> Rows:
    """Read the instance of a certificate and recompute its digest.

    Raises
    ------
    MalformedCertificateError
        The part is not a valid instance.
    CertificateError
        The digest belongs to another instance.
    """
    names = ("memory_limit", "requests", "digest")
    keys_of(part, names, "instance", optional=("memory_rule", "weights", "replicas"))
    rule = read_memory_rule(part)
    size, unstored = rule.block_size, int(rule.emitted_token == "next")
    limit = whole(part["memory_limit"], "memory_limit", 1)
    replicas = whole(part["replicas"], "replicas", 2) if "replicas" in part else 1
    rows = []
    for position, row in enumerate(list_of(part["requests"], "requests")):
        where = f"request {position}"
        a, s, o = wholes(row, where, 3)
        if o < 1:
            raise MalformedCertificateError(f"{where}: output_length is below 1")
        if s < unstored:
            raise MalformedCertificateError(f"{where}: prompt is below 1")
        if s + o - unstored > limit // size * size:
            raise MalformedCertificateError(
                f"{where}: prompt and output exceed memory_limit {limit}"
            )
        rows.append((a, s, o))
    if not rows:
        raise MalformedCertificateError("there are no requests")
    weights = wholes(part.get("weights", [1] * len(rows)), "weights", len(rows))
    arrivals, prompts, outputs = map(list, zip(*rows, strict=True))
    columns = (prompts, outputs, arrivals)
    machine = {"memory_limit": limit, "memory_rule": rule, "replicas": replicas, **ANY_PROMPTS}
    given = identified(part, lambda: Instance.from_arrays(*columns, weights=weights, **machine))
    stored = [s - unstored for s in prompts]
    below = []
    for a, x, o in zip(arrivals, stored, outputs, strict=True):
        meets_an_end = (x + o) // size * size > x
        below.append((a, x if meets_an_end else -(-(x + o) // size) * size - o, o))
    machines = min(replicas, len(rows))
    pooled, text = machines * (limit // size * size), rule.told
    return Rows(below, pooled, given.digest, size, stored, text, weights, replicas, machines)


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


def identified(part: Mapping[str, Any], make: Callable[[], Problem]) -> Problem:
    """Create the problem of a certificate; refuse it if its digest is not the stated one."""
    try:
        problem = make()
    except (ValueError, TypeError) as error:
        raise MalformedCertificateError(f"instance: {error}") from error
    if type(part["digest"]) is not str:
        raise MalformedCertificateError(f"digest: {shown(part['digest'])} is not a text")
    if part["digest"] != problem.digest:
        raise CertificateError("digest does not belong to these requests and this memory_limit")
    return problem


def read_memory_rule(instance: Mapping[str, Any]) -> MemoryRule:
    """Read the memory rule of an instance; fields that are not given have their default."""
    part = instance.get("memory_rule", {})
    keys_of(part, (), "memory_rule", optional=[field.name for field in fields(MemoryRule)])
    try:
        return MemoryRule(**part)
    except (ValueError, TypeError) as error:
        raise MalformedCertificateError(f"memory_rule: {error}") from error


def total_latency(instance: Rows, document: Mapping[str, Any]) -> int:
    """Compute the weighted total latency of the schedule of a certificate; refuse infeasible ones.

    A stretch, given by its first and last round, is a run without pause. Between stretches a
    request holds no memory and keeps its tokens. All stretches of a request are on its replica.
    """
    assignment = _read_assignment(instance, document)
    where = "stretches" if "stretches" in document else "start_times"
    pieces: dict[int, list[Piece]] = {}
    total = 0
    for i, own in enumerate(_read_stretches(instance, document)):
        arrival, _, output = instance.rows[i]
        produced, previous = 0, arrival
        for first, last in own:
            if last < first:
                raise MalformedCertificateError(f"{where}: round {last} is before {first}")
            if first <= previous:
                reason = "before it arrives" if not produced else f"again by round {previous}"
                raise CertificateError(f"{where}: request {i} starts {reason}")
            piece = (first - 1, last, instance.stored[i] + produced)
            pieces.setdefault(assignment[i], []).append(piece)
            produced, previous = produced + last - first + 1, last
        if produced != output:
            raise CertificateError(f"{where}: request {i} runs {produced} rounds, not {output}")
        total += instance.weights[i] * (previous - arrival)
    for replica, on_replica in sorted(pieces.items()):
        place = where if instance.replicas == 1 else f"{where}: replica {replica}"
        _refuse_crowd(on_replica, instance, place)
    return total


def _read_assignment(instance: Rows, document: Mapping[str, Any]) -> list[int]:
    """Read the replica of each request; without an assignment, there is only replica 0."""
    if ("assignment" in document) != (instance.replicas > 1):
        reason = "is missing" if instance.replicas > 1 else "is given, but there is one replica"
        raise MalformedCertificateError(f"certificate: 'assignment' {reason}")
    if instance.replicas == 1:
        return [0] * len(instance.rows)
    assignment = wholes(document["assignment"], "assignment", len(instance.rows))
    for i, replica in enumerate(assignment):
        if replica >= instance.replicas:
            reason = f"request {i} is on replica {replica} of {instance.replicas}, numbered from 0"
            raise MalformedCertificateError(f"assignment: {reason}")
    return assignment


def _read_stretches(instance: Rows, document: Mapping[str, Any]) -> Iterable[Iterable[list[int]]]:
    """Return the stretches of each request; without preemption, one as long as its output."""
    where, n = "stretches", len(instance.rows)
    if where not in document:
        starts = wholes(document["start_times"], "start_times", n)
        return ([[t + 1, t + o]] for (_, _, o), t in zip(instance.rows, starts, strict=True))
    if len(list_of(document[where], where)) != n:
        raise MalformedCertificateError(f"{where}: {len(document[where])}, not {n}")
    return ((wholes(one, where, 2) for one in list_of(own, where)) for own in document[where])


def _refuse_crowd(pieces: list[Piece], instance: Rows, where: str) -> None:
    """Refuse pieces on one replica that exceed its memory limit in a round.

    A piece (t, end, held) runs in rounds t + 1 .. end and holds one more token in each. Memory
    grows until a piece ends, so the last round of each piece is enough.

    In round r a piece takes as many blocks of B as hold held + r - t tokens. Let held - t = x B + e
    and r + B - 1 = y B + f with 0 <= e, f < B: these are x + y, and one more where e + f >= B.
    """
    size = instance.block_size
    limit = instance.memory_limit // instance.machines // size
    unit = "tokens" if size == 1 else "blocks"
    waiting = sorted(pieces, reverse=True)
    remainders = _Counts((held - start) % size for start, _, held in pieces)
    running = offset = 0
    for start, last, held in sorted(pieces, key=lambda piece: piece[1]):
        while waiting and waiting[-1][0] < last:
            before, _, tokens = waiting.pop()
            running += 1
            offset += (tokens - before) // size
            remainders.add((tokens - before) % size, 1)
        rounds, over = divmod(last + size - 1, size)
        blocks = offset + running * (rounds + 1) - remainders.below(size - over)
        if blocks > limit:
            raise CertificateError(f"{where}: round {last} holds {blocks} of {limit} {unit}")
        running -= 1
        offset -= (held - start) // size
        remainders.add((held - start) % size, -1)


class _Counts:
    """Multiset that counts its numbers below a limit (a Fenwick tree)."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = sorted(set(numbers))
        self._sums = [0] * (len(self._numbers) + 1)

    def add(self, number: int, copies: int) -> None:
        """Add ``copies`` copies of a number, which must be one of those given at construction."""
        k = bisect_left(self._numbers, number) + 1
        while k < len(self._sums):
            self._sums[k] += copies
            k += k & -k

    def below(self, number: int) -> int:
        """Return the number of entries of the multiset below ``number``."""
        k, count = bisect_left(self._numbers, number), 0
        while k:
            count += self._sums[k]
            k &= k - 1
        return count
