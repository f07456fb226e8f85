"""Drafts of instances: every operator stays inside the space, and prints in a line."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from instances import InvalidTypeError, InvalidValueError
from online.worst_cases.drafts import (
    Draft,
    Space,
    crossed,
    mutated,
    neighbours,
    random_draft,
    shaped_draft,
)


@st.composite
def spaces(draw: DrawFn) -> Space:
    return Space(
        draw(st.integers(1, 9)),
        draw(st.integers(2, 40)),
        draw(st.sampled_from([0, 3, 40])),
        draw(st.booleans()),
    )


def assert_inside(draft: Draft, space: Space) -> None:
    limit, rows = draft
    assert 1 <= len(rows) <= space.max_requests
    assert 2 <= limit <= space.max_memory
    assert all(s >= 1 and o >= 1 and s + o <= limit for _, s, o in rows)
    arrivals = [a for a, _, _ in rows]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0
    assert arrivals[-1] <= space.latest_arrival
    if space.equal_prompts:
        assert len({s for _, s, _ in rows}) == 1
    assert space.repaired(limit, rows) == draft


@settings(max_examples=examples(40))
@given(spaces(), st.integers(0, 10_000))
def test_every_operator_stays_in_the_space(space: Space, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = random_draft(rng, space), shaped_draft(rng, space)
    for draft in (one, other, mutated(one, rng, space), crossed(one, other, rng, space)):
        assert_inside(draft, space)


@settings(max_examples=examples(25))
@given(spaces(), st.integers(0, 1_000))
def test_neighbours_are_new_and_in_the_space(space: Space, seed: int) -> None:
    draft = random_draft(np.random.default_rng(seed), space)
    found = list(neighbours(draft, space))
    assert draft not in found
    assert len(set(found)) == len(found)
    for near in found:
        assert_inside(near, space)


def test_a_seed_says_everything() -> None:
    space = Space(8, 30, 10)

    def chain(seed: int) -> list[Draft]:
        rng = np.random.default_rng(seed)
        drafts = [random_draft(rng, space), shaped_draft(rng, space)]
        for _ in range(20):
            drafts.append(crossed(mutated(drafts[-1], rng, space), drafts[0], rng, space))
        return drafts

    assert chain(4) == chain(4)
    assert chain(4) != chain(5)


def test_repair_shortens_prompts_before_outputs() -> None:
    space = Space(3, 10, 4)
    assert space.repaired(99, [(7, 9, 6), (3, 0, 20), (20, 2, 0), (3, 1, 1)]) == Draft(
        10, ((0, 1, 9), (4, 4, 6), (4, 2, 1))
    )


def test_instances_and_spaces_in_a_line() -> None:
    rows = ((0, 1, 2), (0, 1, 2), (0, 3, 1), (4, 1, 2))
    assert str(Draft(7, rows)) == "M=7: 2 x (1, 2), (3, 1), (1, 2) @4"
    assert str(Space(5, 16, 16, True)) == "equal prompts, arrivals <= 16, n <= 5, M <= 16"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((0, 5), "max_requests = 0"), ((1, 1), "max_memory = 1"), ((1, 5, -1), "latest_arrival")],
)
def test_a_bad_space_is_refused(arguments: tuple[int, ...], said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        Space(*arguments)
    with pytest.raises(InvalidTypeError):
        Space(2.5, 9)  # type: ignore[arg-type]
