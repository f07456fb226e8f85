"""Hypothesis strategies for requests, instances and schedules, small enough to shrink well."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from instances import Instance, Request, Schedule


def names() -> SearchStrategy[str]:
    """Text without control characters, line breaks, surrogates or marks of direction."""
    marks = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return st.text(
        st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters=marks)
    )


@st.composite
def requests(
    draw: DrawFn,
    max_memory: int = 12,
    *,
    max_arrival: int = 0,
    min_prompt: int = 1,
    max_weight: int = 1,
) -> Request:
    """A request that fits into ``max_memory`` tokens (at least ``min_prompt`` + 1)."""
    prompt = draw(st.integers(min_prompt, max_memory - 1))
    output = draw(st.integers(1, max_memory - prompt))
    arrival = draw(st.integers(0, max_arrival))
    weight = draw(st.integers(1, max_weight)) if max_weight > 1 else 1
    return Request(arrival, prompt, output, weight=weight)


@st.composite
def instances(
    draw: DrawFn,
    max_requests: int = 6,
    max_memory: int = 12,
    *,
    arrivals: bool = True,
    max_arrival: int = 10,
    min_requests: int = 1,
    max_weight: int = 1,
) -> Instance:
    """An instance of M in 2 .. ``max_memory``; all at round 0 where ``arrivals`` is False."""
    limit = draw(st.integers(2, max_memory))
    one = requests(limit, max_arrival=max_arrival if arrivals else 0, max_weight=max_weight)
    drawn = draw(st.lists(one, min_size=min_requests, max_size=max_requests))
    return Instance(drawn, limit)


@st.composite
def start_times(
    draw: DrawFn, instance: Instance, *, earliest: int = 0, slack: int = 4
) -> list[int]:
    """Any start times, feasible or not, dense enough that requests overlap."""
    latest = max(q.arrival_time + q.output_length for q in instance) + slack
    return [draw(st.integers(earliest, latest)) for _ in instance]


@st.composite
def any_schedules(
    draw: DrawFn, of: SearchStrategy[Instance] | None = None, *, earliest: int = 0
) -> Schedule:
    """A schedule with arbitrary start times."""
    instance = draw(of if of is not None else instances())
    return Schedule(instance, draw(start_times(instance, earliest=earliest)))


@st.composite
def serial_schedules(draw: DrawFn, of: SearchStrategy[Instance] | None = None) -> Schedule:
    """A feasible schedule: one request after the other in some order, with pauses."""
    instance = draw(of if of is not None else instances())
    order = draw(st.permutations(range(len(instance))))
    starts = [0] * len(instance)
    clock = 0
    for index in order:
        pause = draw(st.integers(0, 2))
        starts[index] = max(clock, instance[index].arrival_time) + pause
        clock = starts[index] + instance[index].output_length
    return Schedule(instance, starts)


@st.composite
def packed_schedules(draw: DrawFn, of: SearchStrategy[Instance] | None = None) -> Schedule:
    """A feasible schedule with overlaps: in some order, each request at its first start that
    the definition allows, no sooner than a drawn delay after its arrival."""
    instance = draw(of if of is not None else instances())
    starts, held = [0] * len(instance), Counter[int]()
    for index in draw(st.permutations(range(len(instance)))):
        one = instance[index]
        tokens = [one.prompt_length + age for age in range(1, one.output_length + 1)]
        start = one.arrival_time + draw(st.integers(0, 2))
        while any(held[start + k] + m > instance.memory_limit for k, m in enumerate(tokens, 1)):
            start += 1
        held.update({start + k: m for k, m in enumerate(tokens, 1)})
        starts[index] = start
    return Schedule(instance, starts)


def schedules(of: SearchStrategy[Instance] | None = None) -> SearchStrategy[Schedule]:
    """A feasible schedule, with or without overlaps."""
    return st.one_of(packed_schedules(of), serial_schedules(of))


def json_values() -> SearchStrategy[object]:
    """Anything JSON can hold and give back unchanged."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.text()
        | st.floats(allow_nan=False, allow_infinity=False)
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
