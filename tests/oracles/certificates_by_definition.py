"""Certificates built without the package's writer, and the bound of any proof from its definition.

Plain loops in fractions for tiny instances; no code is shared with the checker. A document is only
read: its rows, M and the numbers of its proof (docs/certificates.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from preemptive_by_definition import bound_of_prices

from instances import Instance, MemoryRule
from instances.problem.memory_rule import TOKENS

Document = dict[str, Any]
Rows = Sequence[Sequence[int]]
State = tuple[int, int]
Window = tuple[int, int | None]
Prices = Mapping[tuple[int, State], Fraction]
"""Q(tau, (m, r)); what is missing is 0."""


def instance_of(rows: Rows, limit: int, rule: MemoryRule = TOKENS) -> Instance:
    arrivals, prompts, outputs = zip(*rows, strict=True)
    return Instance.from_arrays(
        prompts,
        outputs,
        arrivals,
        memory_limit=limit,
        metadata={"allow_zero_prompt_length": True},
        memory_rule=rule,
    )


def document_of(
    rows: Rows, limit: int, starts: Sequence[int], proof: Mapping[str, Any], claim: int = 0
) -> Document:
    """A certificate of these starts, feasible or not, with the upper bound they have.

    A proof about schedules that stop requests gets the same as stretches.
    """
    schedule: dict[str, Any] = {"start_times": list(starts)}
    if proof["kind"].startswith("preemptive-"):
        pairs = zip(rows, starts, strict=True)
        schedule = {"stretches": [[[t + 1, t + o]] for (_, _, o), t in pairs]}
    return {
        "format": "llm-hindsight/certificate",
        "version": 1,
        "instance": {
            "memory_limit": limit,
            "requests": [list(row) for row in rows],
            "digest": instance_of(rows, limit).digest,
        },
        **schedule,
        "upper_bound": sum(t + o - a for (a, _, o), t in zip(rows, starts, strict=True)),
        "lower_bound": claim,
        "proof": dict(proof),
    }


def one_by_one(rows: Rows) -> list[int]:
    """Starts of a feasible schedule: one request after the other, in order of arrival."""
    starts, clock = [0] * len(rows), 0
    for i in sorted(range(len(rows)), key=lambda i: rows[i][0]):
        starts[i] = max(clock, rows[i][0])
        clock = starts[i] + rows[i][2]
    return starts


def occurring_states(rows: Rows) -> Counter[State]:
    """How many requests pass through each state."""
    return Counter((s + age, o - age) for _, s, o in rows for age in range(o))


def heaviest_configuration(weights: Mapping[State, Fraction], rows: Rows, limit: int) -> Fraction:
    """The heaviest multiset of states that fits into M in all later rounds, by trying them all."""
    copies = occurring_states(rows)
    states = [state for state in copies if weights.get(state)]

    def fits(chosen: list[State]) -> bool:
        return all(sum(m + r for m, later in chosen if later >= r) <= limit for _, r in chosen)

    def best(position: int, chosen: list[State]) -> Fraction:
        if position == len(states):
            return Fraction(0)
        state = states[position]
        found = best(position + 1, chosen)
        for count in range(1, copies[state] + 1):
            more = chosen + [state] * count
            if not fits(more):
                break
            found = max(found, count * weights[state] + best(position + 1, more))
        return found

    return best(0, [])


def bound_within(rows: Rows, windows: Sequence[Window], prices: Prices, paid: Fraction) -> int:
    """The bound of prices on the schedules within windows; ``paid`` is the sum of the W."""
    T = 1 + max((tau for tau, _ in prices), default=-1)
    total = -paid
    for (a, s, o), (first, last) in zip(rows, windows, strict=True):
        # From T on a start costs one more a round.
        end = max(first, T) if last is None else last
        total += min(
            t
            + o
            - a
            + sum(
                (prices.get((t + age, (s + age, o - age)), Fraction(0)) for age in range(o)),
                Fraction(0),
            )
            for t in range(first, end + 1)
        )
    return math.ceil(total)


def bound_by_definition(document: Document) -> int:
    """The bound that the prices or the window tree of a well-formed document prove."""
    rows, limit = document["instance"]["requests"], document["instance"]["memory_limit"]
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
    free: list[Window] = [(a, None) for a, _, _ in rows]
    prices: dict[tuple[int, State], Fraction] = {}
    if proof["kind"] == "memory-prices":
        for tau, y in enumerate(proof["prices"]):
            for m, r in occurring_states(rows):
                prices[tau, (m, r)] = Fraction(y * (m + 1), scale)
        paid = Fraction(limit * sum(proof["prices"]), scale)
        return bound_within(rows, free, prices, paid)
    if proof["kind"] == "state-prices":
        paid = Fraction(0)
        for tau, row in enumerate(proof["prices"]):
            here = {
                (m, r): Fraction(y, scale) for (m, r), y in zip(proof["states"], row, strict=True)
            }
            prices.update({(tau, state): y for state, y in here.items()})
            paid += heaviest_configuration(here, rows, limit)
        return bound_within(rows, free, prices, paid)
    tables = [{(m, r): Fraction(w) for m, r, w in table} for table in proof["tables"]]
    capacities = [heaviest_configuration(table, rows, limit) for table in tables]
    nodes = iter(proof["tree"])

    def least(windows: list[Window]) -> int:
        node = next(nodes)
        if isinstance(node, list):
            i, t = node
            first, last = windows[i]
            left = least([*windows[:i], (first, t), *windows[i + 1 :]])
            return min(left, least([*windows[:i], (t + 1, last), *windows[i + 1 :]]))
        prices: dict[tuple[int, State], Fraction] = {}
        paid = Fraction(0)
        for k, tau, y in proof["prices"][node]:
            paid += Fraction(y, scale) * capacities[k]
            for state, weight in tables[k].items():
                prices[tau, state] = prices.get((tau, state), 0) + Fraction(y, scale) * weight
        return bound_within(rows, windows, prices, paid)

    return least(free)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the path of every entry of a document, outermost first."""
    found = []
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        found.append((*path, key))
        if isinstance(entry, (dict, list)):
            found += places(entry, (*path, key))
    return found
