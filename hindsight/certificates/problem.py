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
    """Total latency of a schedule that is feasible.

    Memory only grows until a request completes: it is enough to look at the last round of each.
    """
    rows = instance.rows
    starts = wholes(start_times, len(rows), "start_times")
    for i, ((arrival, _, _), start) in enumerate(zip(rows, starts, strict=True)):
        if start < arrival:
            raise CertificateError(f"start_times: request {i} starts before it arrives")
    ends = [start + output for (_, _, output), start in zip(rows, starts, strict=True)]
    waiting = sorted(range(len(rows)), key=lambda i: starts[i], reverse=True)
    running = offset = 0  # in round r they hold offset + running * r
    for i in sorted(range(len(rows)), key=lambda i: ends[i]):
        last = ends[i]
        while waiting and starts[waiting[-1]] < last:
            j = waiting.pop()
            running += 1
            offset += rows[j][1] - starts[j]
        tokens = offset + running * last
        if tokens > instance.memory_limit:
            raise CertificateError(
                f"start_times: round {last} holds {tokens} of {instance.memory_limit} tokens"
            )
        running -= 1
        offset -= rows[i][1] - starts[i]
    return sum(ends) - sum(arrival for arrival, _, _ in rows)
