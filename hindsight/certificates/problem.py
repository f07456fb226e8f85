"""The instance and the schedule of a certificate, as read: digest, feasibility, total latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instances import Instance

from .format import (
    CertificateError,
    MalformedCertificateError,
    keys_of,
    list_of,
    shown,
    whole,
    wholes,
)

Row = tuple[int, int, int]


@dataclass(frozen=True)
class Rows:
    """The instance: (arrival, prompt, output) of each request, and M."""

    rows: list[Row]
    memory_limit: int
    digest: str


def read_instance(part: Any) -> Rows:
    """The instance of a certificate, whose digest is recomputed.

    Raises
    ------
    MalformedCertificateError
        It is none.
    CertificateError
        The digest is another one's.
    """
    keys_of(part, ("memory_limit", "requests", "digest"), "instance")
    limit = whole(part["memory_limit"], "memory_limit", 1)
    rows = []
    for position, row in enumerate(list_of(part["requests"], "requests")):
        where = f"request {position}"
        a, s, o = wholes(row, 3, where)
        if o < 1:
            raise MalformedCertificateError(f"{where}: output_length is below 1")
        if s + o > limit:
            raise MalformedCertificateError(
                f"{where}: prompt and output exceed memory_limit {limit}"
            )
        rows.append((a, s, o))
    if not rows:
        raise MalformedCertificateError("there are no requests")
    try:
        columns = [list(column) for column in zip(*rows, strict=True)]
        digest = Instance.from_arrays(
            columns[1],
            columns[2],
            columns[0],
            memory_limit=limit,
            metadata={"allow_zero_prompt_length": True},
        ).digest
    except (ValueError, TypeError) as error:
        raise MalformedCertificateError(f"instance: {error}") from error
    if type(part["digest"]) is not str:
        raise MalformedCertificateError(f"digest: {shown(part['digest'])} is not a text")
    if part["digest"] != digest:
        raise CertificateError("digest does not belong to these requests and this memory_limit")
    return Rows(rows, limit, digest)


def total_latency(instance: Rows, start_times: Any) -> int:
    """Total latency of a schedule that is feasible, given by its starts."""
    rows = instance.rows
    starts = wholes(start_times, len(rows), "start_times")
    for i, ((arrival, _, _), start) in enumerate(zip(rows, starts, strict=True)):
        if start < arrival:
            raise CertificateError(f"start_times: request {i} starts before it arrives")
    pieces = [(t, t + output, prompt) for (_, prompt, output), t in zip(rows, starts, strict=True)]
    _refuse_crowds(pieces, instance.memory_limit, "start_times")
    return sum(end for _, end, _ in pieces) - sum(arrival for arrival, _, _ in rows)


def preemptive_total_latency(instance: Rows, stretches: Any) -> int:
    """The same of a schedule given by the first and last round of each stretch of each request.

    A request is without memory between its stretches, and goes on with the tokens it has.
    """
    where = "stretches"
    if len(list_of(stretches, where)) != len(instance.rows):
        raise MalformedCertificateError(f"{where}: {len(stretches)}, not {len(instance.rows)}")
    pieces, total = [], 0
    for i, ((arrival, prompt, output), own) in enumerate(
        zip(instance.rows, stretches, strict=True)
    ):
        produced, previous = 0, arrival
        for stretch in list_of(own, where):
            first, last = wholes(stretch, 2, where)
            if last < first:
                raise MalformedCertificateError(f"{where}: round {last} is before {first}")
            if first <= previous:
                reason = "before it arrives" if not produced else f"again by round {previous}"
                raise CertificateError(f"{where}: request {i} starts {reason}")
            pieces.append((first - 1, last, prompt + produced))
            produced, previous = produced + last - first + 1, last
        if produced != output:
            raise CertificateError(f"{where}: request {i} runs {produced} rounds, not {output}")
        total += previous - arrival
    _refuse_crowds(pieces, instance.memory_limit, where)
    return total


def _refuse_crowds(pieces: list[tuple[int, int, int]], limit: int, where: str) -> None:
    """Refuse more than ``limit`` tokens in a round.

    A piece (t, end, held) runs in rounds t + 1 .. end and holds one token more in each. Memory only
    grows until a piece ends: it is enough to look at the last round of each.
    """
    waiting = sorted(pieces, reverse=True)
    running = offset = 0  # in round r they hold offset + running * r
    for start, last, held in sorted(pieces, key=lambda piece: piece[1]):
        while waiting and waiting[-1][0] < last:
            before, _, tokens = waiting.pop()
            running += 1
            offset += tokens - before
        tokens = offset + running * last
        if tokens > limit:
            raise CertificateError(f"{where}: round {last} holds {tokens} of {limit} tokens")
        running -= 1
        offset -= held - start
