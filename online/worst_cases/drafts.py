"""Small instances as drafts: plain numbers that the search draws, changes and crosses.

Every function that draws or changes a draft returns one inside the given `Space`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from instances.problem.instance import Instance
from instances.validation import check_ranges, ranged

Row = tuple[int, int, int]
"""One request: (arrival time in rounds, prompt length in tokens, output length in tokens)."""


class Draft(NamedTuple):
    """A small problem instance as plain numbers, so that it can be compared and hashed.

    Attributes
    ----------
    memory_limit : int
        M, tokens.
    rows : tuple[Row, ...]
        (arrival a, prompt s, output o) of each request, in the order of arrivals.
    """

    memory_limit: int
    rows: tuple[Row, ...]

    def instance(self, name: str | None = None) -> Instance:
        """Return the draft as an `Instance`. This checks its numbers."""
        arrivals, prompts, outputs = (list(column) for column in zip(*self.rows, strict=True))
        return Instance.from_arrays(
            prompts, outputs, arrivals, memory_limit=self.memory_limit, name=name
        )

    def __str__(self) -> str:
        """Return the draft as a line of text such as ``M=7: 2 x (1, 3) @4``.

        This example has memory M = 7 and two requests with prompt length 1 and output length 3 that
        arrive in round 4. Successive equal requests are written once, with their number in front.
        ``@0`` is left out.
        """
        parts = []
        for (a, s, o), alike in groupby(self.rows):
            count = len(list(alike))
            parts.append(f"{f'{count} x ' if count > 1 else ''}({s}, {o}){f' @{a}' if a else ''}")
        return f"M={self.memory_limit}: " + ", ".join(parts)


@dataclass(frozen=True)
class Space:
    """Limits on the instances that a search for worst cases tries.

    All instances have memory M, at least one request, prompt lengths s >= 1, output lengths o >= 1,
    s + o <= M, and the first arrival in round 0.

    Parameters
    ----------
    max_requests : int
        Largest number of requests.
    max_memory : int
        Largest M in tokens, at least 2.
    latest_arrival : int, default 0
        Latest arrival in rounds; 0 lets all requests arrive at once.
    equal_prompts : bool, default False
        Whether all requests have the same prompt length.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A limit is out of its range.
    """

    max_requests: int = ranged(minimum=1)
    max_memory: int = ranged(minimum=2)
    latest_arrival: int = ranged(0, minimum=0)
    equal_prompts: bool = False

    def __post_init__(self) -> None:
        check_ranges(self, "space")

    def __str__(self) -> str:
        """Return the limits as a line of text, for messages and as a part of the random seed."""
        times = f"arrivals <= {self.latest_arrival}" if self.latest_arrival else "all at once"
        limits = f"{times}, n <= {self.max_requests}, M <= {self.max_memory}"
        return f"{'equal prompts, ' if self.equal_prompts else ''}{limits}"

    def repaired(self, memory_limit: int, rows: Sequence[Row]) -> Draft:
        """Return an instance (draft) within the limits that is close to the given numbers.

        Requests beyond ``max_requests`` are dropped, numbers are clipped to their ranges, arrivals
        are shifted to begin at 0, and requests are sorted by arrival. If prompt plus output length
        exceeds the memory limit, the prompt is shortened. With ``equal_prompts`` all prompts get
        the length of the shortest.
        """
        limit = min(max(memory_limit, 2), self.max_memory)
        kept = list(rows)[: self.max_requests]
        first = min(a for a, _, _ in kept)
        fitted = []
        for a, s, o in kept:
            output = min(max(o, 1), limit - 1)
            prompt = min(max(s, 1), limit - output)
            fitted.append((min(a - first, self.latest_arrival), prompt, output))
        if self.equal_prompts:
            prompt = min(s for _, s, _ in fitted)
            fitted = [(a, prompt, o) for a, _, o in fitted]
        return Draft(limit, tuple(sorted(fitted, key=lambda row: row[0])))


def random_draft(rng: np.random.Generator, space: Space) -> Draft:
    """Draw a random small instance (draft) of one to four groups of equal requests.

    The memory limit and all lengths are log-uniform. With probability 0.3 the requests are then
    permuted.
    """
    limit = _log_uniform(rng, 2, space.max_memory)
    rows: list[Row] = []
    for _ in range(int(rng.integers(1, 5))):
        arrival = int(rng.integers(space.latest_arrival + 1)) if rng.random() < 0.5 else 0
        output = _log_uniform(rng, 1, limit - 1)
        prompt = _log_uniform(rng, 1, limit - output)
        rows += [(arrival, prompt, output)] * int(rng.integers(1, max(2, space.max_requests // 2)))
    if rng.random() < 0.3:
        rows = [rows[k] for k in rng.permutation(len(rows))]
    return space.repaired(limit, rows)


def shaped_draft(rng: np.random.Generator, space: Space) -> Draft:
    """Draw a small instance (draft) of equal large requests and equal small requests.

    Each large request fills the memory M alone: prompt plus output length is M. All small requests
    fit into M together. Instances of this form in the literature have large ratios. In [W25]
    Theorems 1 and EC.1 all requests arrive at once, and the policy serves the wrong kind first. In
    [J25] Theorem 4.1 small requests arrive while a large one runs.
    """
    large = int(rng.integers(1, max(2, space.max_requests // 2)))
    small = max(1, space.max_requests - large)
    limit = int(rng.integers(min(small + 1, space.max_memory), space.max_memory + 1))
    limit = max(limit, 2)
    share = max(2, limit // small)
    large_output = _log_uniform(rng, 1, limit - 1)
    small_output = min(_log_uniform(rng, 1, share - 1), share - 1)
    if rng.random() < 0.5:
        small_output = min(large_output + int(rng.integers(2)), share - 1)
    arrival = int(rng.integers(space.latest_arrival + 1))
    if rng.random() < 0.5:
        arrival = min(arrival, large_output)
    rows = [(0, limit - large_output, large_output)] * large
    rows += [(arrival, share - small_output, small_output)] * small
    if rng.random() < 0.3:
        rows = [rows[k] for k in rng.permutation(len(rows))]
    return space.repaired(limit, rows)


def mutated(draft: Draft, rng: np.random.Generator, space: Space) -> Draft:
    """Return a copy of a small instance (draft) with one to three random changes from `CHANGES`."""
    limit, rows = draft
    for _ in range(1 + int(rng.geometric(0.6)) % 3):
        change = CHANGES[int(rng.integers(len(CHANGES)))]
        changed = list(rows)
        other = change(limit, changed, rng, space)
        limit, rows = space.repaired(limit if other is None else other, changed or rows)
    return Draft(limit, rows)


def crossed(one: Draft, other: Draft, rng: np.random.Generator, space: Space) -> Draft:
    """Return an instance with the first requests of ``one`` and the last requests of ``other``.

    Its memory limit is that of ``one`` or ``other``. This choice and the numbers of requests are
    random.
    """
    limit = (one, other)[int(rng.integers(2))].memory_limit
    head = one.rows[: int(rng.integers(len(one.rows) + 1))]
    tail = other.rows[int(rng.integers(len(other.rows))) :]
    return space.repaired(limit, [*head, *tail])


def neighbours(draft: Draft, space: Space) -> Iterator[Draft]:
    """Yield the instances that differ from ``draft`` by one step.

    A step removes a request, or changes a number of one request (or of all requests equal to it) by
    1, or changes the memory limit M by 1. A change of M yields two instances. In the second, the
    prompts of all requests whose prompt plus output length is M change by the same amount.
    """
    limit, rows = draft
    seen = {draft}
    for found in _steps(limit, rows):
        if not found[1]:
            continue
        near = space.repaired(*found)
        if near not in seen:
            seen.add(near)
            yield near


Change = Callable[[int, list[Row], np.random.Generator, Space], int | None]
"""Function (memory limit, rows, random generator, space): edits rows, may return a new limit."""


def _log_uniform(rng: np.random.Generator, low: int, high: int) -> int:
    return int(np.floor(np.exp(rng.uniform(np.log(low), np.log(max(high, low) + 1)))))


def _group(rows: list[Row], rng: np.random.Generator) -> list[int]:
    """Return the positions in ``rows`` of a random group of requests.

    The group is a random request, all requests equal to it, or several successive requests.
    """
    at = int(rng.integers(len(rows)))
    kind = rng.random()
    if kind < 0.4:
        return [at]
    if kind < 0.8:
        return [k for k, row in enumerate(rows) if row == rows[at]]
    return list(range(at, int(rng.integers(at, len(rows))) + 1))


def _set(rows: list[Row], indices: list[int], field: int, value: Callable[[Row], int]) -> None:
    for k in indices:
        row = list(rows[k])
        row[field] = value(rows[k])
        rows[k] = (row[0], row[1], row[2])


def _nudge(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Add -2, -1, 1 or 2 to the arrival, prompt or output of a random group of requests."""
    step = int(rng.choice([-2, -1, 1, 2]))
    field = int(rng.integers(0 if space.latest_arrival else 1, 3))
    _set(rows, _group(rows, rng), field, lambda row: row[field] + step)


def _redraw(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Give all requests of a random group the same new random arrival, prompt or output."""
    field = int(rng.integers(0 if space.latest_arrival else 1, 3))
    top = space.latest_arrival + 1 if field == 0 else limit - 1
    value = _log_uniform(rng, 1, top) - (field == 0)
    _set(rows, _group(rows, rng), field, lambda row: value)


def _fill(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Set the prompt lengths of a random group of requests to s = M // k - o.

    M is the memory ``limit`` and o the output length. So k of these requests together fill the
    memory in their last round. k is 1 with probability 0.4, else random.
    """
    group = _group(rows, rng)
    together = 1 if rng.random() < 0.4 else int(rng.integers(1, len(rows) + 1))
    _set(rows, group, 1, lambda row: limit // together - row[2])


def _imitate(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Set the outputs of a random group to those of a random request, plus -1, 0 or 1."""
    output = rows[int(rng.integers(len(rows)))][2] + int(rng.integers(-1, 2))
    _set(rows, _group(rows, rng), 2, lambda row: output)


def _time(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Set the arrivals of a random group of requests to a time near an event of a random request.

    The event is its arrival, or its earliest completion (arrival plus output length). The time
    differs from it by -1, 0 or 1 rounds.
    """
    a, _, o = rows[int(rng.integers(len(rows)))]
    arrival = max(0, a + (o if rng.random() < 0.5 else 0) + int(rng.integers(-1, 2)))
    _set(rows, _group(rows, rng), 0, lambda row: arrival)


def _add(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Insert a copy of a random request at a random place. Drop a request if there are too many."""
    row = rows[int(rng.integers(len(rows)))]
    rows.insert(int(rng.integers(len(rows) + 1)), row)
    if len(rows) > space.max_requests:
        del rows[int(rng.integers(len(rows)))]


def _drop(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Remove a random request."""
    del rows[int(rng.integers(len(rows)))]


def _move(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Move a random request to a random place in the order of the requests."""
    row = rows.pop(int(rng.integers(len(rows))))
    rows.insert(int(rng.integers(len(rows) + 1)), row)


def _become(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> None:
    """Replace a random request by a copy of another random one."""
    rows[int(rng.integers(len(rows)))] = rows[int(rng.integers(len(rows)))]


def _resize(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> int:
    """Change the memory limit by -4 .. 4.

    Requests whose prompt plus output length was the old limit get a new prompt or output length, so
    that the sum is the new limit.
    """
    new = limit + int(rng.choice([-4, -2, -1, 1, 2, 4]))
    field = 1 if rng.random() < 0.7 else 2
    full = [k for k, (_, s, o) in enumerate(rows) if s + o == limit]
    _set(rows, full, field, lambda row: row[field] + min(new, space.max_memory) - limit)
    return new


def _scale(limit: int, rows: list[Row], rng: np.random.Generator, space: Space) -> int:
    """Multiply the memory limit and all numbers of requests by one of 0.5, 0.8, 1.25 and 2."""
    factor = float(rng.choice([0.5, 0.8, 1.25, 2.0]))
    factor = min(factor, space.max_memory / limit)
    rows[:] = [(round(a * factor), round(s * factor), round(o * factor)) for a, s, o in rows]
    return round(limit * factor)


CHANGES: tuple[Change, ...] = (
    *(_nudge, _nudge, _redraw, _fill, _fill, _imitate, _time, _add, _drop),
    *(_move, _move, _become, _become, _resize, _scale),
)
"""Functions from which `mutated` draws its changes. One listed twice is twice as likely."""


def _steps(limit: int, rows: tuple[Row, ...]) -> Iterator[tuple[int, list[Row]]]:
    for k in range(len(rows)):
        yield limit, [*rows[:k], *rows[k + 1 :]]
    for k, row in enumerate(rows):
        twins = [j for j, other in enumerate(rows) if other == row]
        for group in ([k], twins):
            for field in range(3):
                for step in (-1, 1):
                    changed = list(rows)
                    _set(changed, group, field, lambda r, f=field, d=step: r[f] + d)  # type: ignore[misc]
                    yield limit, changed
    for step in (-1, 1):
        yield limit + step, list(rows)
        changed = list(rows)
        full = [k for k, (_, s, o) in enumerate(rows) if s + o == limit]
        _set(changed, full, 1, lambda row, d=step: row[1] + d)  # type: ignore[misc]
        yield limit + step, changed
