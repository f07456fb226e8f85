"""Certificates built without the package's writer, and all that they may claim, from definitions.

Plain loops in fractions for tiny instances; no code is shared with the checker. A document is only
read: its rows, M and the numbers of its proof (docs/certificates.md).
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from fractions import Fraction
from typing import Any

import enumeration
from brute_force import State, heaviest
from preemptive_by_definition import bound_of_prices

from instances import Instance, MemoryRule

TOKENS = MemoryRule()

Document = dict[str, Any]
Rows = Sequence[Sequence[int]]
Prices = Mapping[tuple[int, State], Fraction]
"""Q(tau, (m, r)); what is missing is 0."""

LONGEST = 30
"""Rounds of the longest schedules that are enumerated."""


def instance_of(rows: Rows, limit: int, rule: MemoryRule = TOKENS, **other: Any) -> Instance:
    arrivals, prompts, outputs = zip(*rows, strict=True)
    return Instance.from_arrays(
        prompts,
        outputs,
        arrivals,
        memory_limit=limit,
        metadata={"allow_zero_prompt_length": True},
        memory_rule=rule,
        **other,
    )


def digest_of(part: Mapping[str, Any]) -> str:
    """The digest of the instance of a document."""
    other = {name: part[name] for name in ("weights", "replicas") if name in part}
    return instance_of(part["requests"], part["memory_limit"], rule_of(part), **other).digest


def rule_of(part: Mapping[str, Any]) -> MemoryRule:
    return MemoryRule(**part.get("memory_rule", {}))


def blocks_held(rule: MemoryRule, prompt: int, token: int) -> int:
    """Blocks that a request holds in the round of a token, counted from 1."""
    stored = prompt + token - (rule.emitted_token == "next")
    return math.ceil(stored / rule.block_size)


def document_of(
    rows: Rows,
    limit: int,
    starts: Sequence[int],
    proof: Mapping[str, Any],
    claim: int = 0,
    *,
    rule: MemoryRule = TOKENS,
    **other: Any,
) -> Document:
    """A certificate of these starts, feasible or not, with the upper bound they have.

    A proof about schedules that stop requests gets the same as stretches. Replicas take turns.
    """
    part = {"memory_limit": limit, "requests": [list(row) for row in rows], **other}
    if rule != TOKENS:
        part["memory_rule"] = asdict(rule)
    schedule: dict[str, Any] = {"start_times": list(starts)}
    if proof["kind"].startswith("preemptive-"):
        pairs = zip(rows, starts, strict=True)
        schedule = {"stretches": [[[t + 1, t + o]] for (_, _, o), t in pairs]}
    if "replicas" in other:
        schedule["assignment"] = [i % other["replicas"] for i in range(len(rows))]
    document = {
        "format": "llm-hindsight/certificate",
        "version": 1,
        "instance": {**part, "digest": digest_of(part)},
        **schedule,
        "lower_bound": claim,
        "proof": dict(proof),
    }
    return {**document, "upper_bound": total_latency_of(document)}


def one_by_one(rows: Rows) -> list[int]:
    """Starts of a feasible schedule: one request after the other, in order of arrival."""
    starts, clock = [0] * len(rows), 0
    for i in sorted(range(len(rows)), key=lambda i: rows[i][0]):
        starts[i] = max(clock, rows[i][0])
        clock = starts[i] + rows[i][2]
    return starts


# The schedule of a document.


def weights_of(part: Mapping[str, Any]) -> list[int]:
    weights: list[int] = part.get("weights", [1] * len(part["requests"]))
    return weights


def total_latency_of(document: Document) -> int:
    """The weighted sum of the last rounds less the arrivals."""
    part = document["instance"]
    rows, weights = part["requests"], weights_of(part)
    if "stretches" in document:
        ends = [own[-1][-1] for own in document["stretches"]]
    else:
        ends = [t + row[2] for row, t in zip(rows, document["start_times"], strict=True)]
    return sum(w * (end - row[0]) for w, end, row in zip(weights, ends, rows, strict=True))


def is_feasible(document: Document) -> bool:
    """Whether each request runs o times after its arrival, and no replica ever holds too much."""
    part = document["instance"]
    rows, rule = part["requests"], rule_of(part)
    if "stretches" in document:
        rounds = [[r for a, b in own for r in range(a, b + 1)] for own in document["stretches"]]
    else:
        starts = zip(document["start_times"], rows, strict=True)
        rounds = [[*range(t + 1, t + o + 1)] for t, (_, _, o) in starts]
    held: Counter[tuple[int, int]] = Counter()
    replicas = document.get("assignment", [0] * len(rows))
    for (a, s, o), own, replica in zip(rows, rounds, replicas, strict=True):
        if len(own) != o or own != sorted(set(own)) or own[0] <= a:
            return False
        for token, r in enumerate(own, 1):
            held[replica, r] += blocks_held(rule, s, token)
    return max(held.values()) <= part["memory_limit"] // rule.block_size


# The optimum of its instance.


def optimum_of(document: Document) -> int | None:
    """The least weighted total latency of any schedule; None where it takes too long."""
    part = document["instance"]
    rows = [(*row, w) for row, w in zip(part["requests"], weights_of(part), strict=True)]
    if max(a for a, *_ in rows) + sum(o for _, _, o, _ in rows) > LONGEST:
        return None
    shape = part["memory_limit"], part.get("replicas", 1), rule_of(part), "stretches" in document
    return _optimum(tuple(rows), *shape)


@functools.cache
def _optimum(
    rows: tuple[Any, ...], limit: int, replicas: int, rule: MemoryRule, preemptive: bool = False
) -> int:
    requests = tuple(enumeration.Request(*row) for row in rows)
    how = "keep" if preemptive else "never"
    problem = enumeration.Problem(requests, limit, astuple(rule), min(replicas, len(rows)), how)
    return int(enumeration.least_total_latency(problem))


def searched_optimum(document: Document) -> int:
    """The least total latency of the machine that a search is about, which has all memory.

    A search of states is about the instance in tokens; paths count blocks.
    """
    part, rule = document["instance"], rule_of(document["instance"])
    rows, limit, machines = relaxed(part)
    if document["proof"]["kind"] == "state-search":
        return _optimum(tuple(map(tuple, rows)), limit, 1, TOKENS)
    together = machines * (part["memory_limit"] // rule.block_size * rule.block_size)
    return _optimum(tuple(map(tuple, part["requests"])), together, 1, rule)


# The bound of its proof.


def relaxed(part: Mapping[str, Any]) -> tuple[list[list[int]], int, int]:
    """Rows in tokens and M that every schedule keeps, of all machines together, and their number.

    The prompt is the largest with which no token takes more than the blocks held at it.
    """
    rule, rows = rule_of(part), part["requests"]
    size = rule.block_size
    machines = min(part.get("replicas", 1), len(rows))
    below = [
        [a, min(size * blocks_held(rule, s, k) - k for k in range(1, o + 1)), o] for a, s, o in rows
    ]
    return below, machines * (part["memory_limit"] // size * size), machines


def occurring_states(rows: Rows) -> Counter[State]:
    """How many requests pass through each state."""
    return Counter((s + age, o - age) for _, s, o in rows for age in range(o))


def bound_by_definition(document: Document) -> int:
    """The bound that the prices of a well-formed document prove."""
    rows, limit, machines = relaxed(document["instance"])
    proof = document["proof"]
    scale = proof["scale"]
    if proof["kind"].startswith("preemptive-"):
        linear = proof["kind"] == "preemptive-memory-prices"
        return bound_of_prices(
            rows,
            limit,
            {
                (r, m): Fraction(y * m if linear else row[proof["tokens"].index(m)], scale)
                for r, row in enumerate(proof["prices"], 1)
                for m in (range(1, limit + 1) if linear else proof["tokens"])
                for y in (row if linear else 0,)
            },
            linear,
        )
    prices: dict[tuple[int, State], Fraction] = {}
    paid = Fraction(0)
    for tau, row in enumerate(proof["prices"]):
        if proof["kind"] == "memory-prices":
            here = {(m, r): Fraction(row * (m + 1), scale) for m, r in occurring_states(rows)}
            paid += Fraction(limit * row, scale)
        else:
            pairs = zip(proof["states"], row, strict=True)
            here = {(m, r): Fraction(y, scale) for (m, r), y in pairs}
            copies = occurring_states(rows)
            own = heaviest(copies, here, limit // machines, ())
            paid += min(machines * own, heaviest(copies, here, limit, ()))
        prices |= {(tau, state): price for state, price in here.items()}
    T = len(proof["prices"])
    least = [
        min(
            weight * (t + o - a)
            + sum(prices.get((t + age, (s + age, o - age)), Fraction(0)) for age in range(o))
            for t in range(a, max(a, T) + 1)  # from T on a start costs more with each round
        )
        for (a, s, o), weight in zip(rows, weights_of(document["instance"]), strict=True)
    ]
    return math.ceil(sum(least) - paid)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the path of every entry of a document, outermost first."""
    found = []
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        found.append((*path, key))
        if isinstance(entry, (dict, list)):
            found += places(entry, (*path, key))
    return found
