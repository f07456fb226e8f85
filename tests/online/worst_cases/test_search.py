"""The search: its bookkeeping, its determinism, and what it must find."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest
from brute_force import optimal_total_latency

from instances import InvalidValueError
from online import simulate
from online.comparison import PolicySpec
from online.worst_cases.drafts import Draft, Space
from online.worst_cases.scoring import Target
from online.worst_cases.search import KEPT, IslandResult, SearchState, search

SMALL = Space(4, 8, 4)


def standing(name: str = "mc-sf", space: Space = SMALL, **params: object) -> SearchState:
    return SearchState(Target(PolicySpec(name), space), **params)  # type: ignore[arg-type]


def ratios(found: SearchState) -> list[Fraction]:
    return [case.ratio for case in found.cases]


def test_a_round_proves_what_it_finds_and_the_next_builds_on_it() -> None:
    told: list[int] = []
    (one,) = search(
        [standing()], rounds=1, evaluations=12, progress=lambda news: told.append(news.rounds)
    )
    assert told == [one.rounds] == [1]
    assert one.evaluations >= 4 * 12
    for case in one.cases:
        assert SMALL.holds(case.draft)
        optimum, _ = optimal_total_latency(case.draft.instance())
        run = simulate(case.draft.instance(), "mc-sf").total_latency
        assert (case.total, case.runs, case.optimum) == (run, 1, optimum)
    (two,) = search([one], rounds=1, evaluations=12)
    assert two.rounds == 2
    assert ratios(two)[0] >= ratios(one)[0] > 1
    # The course depends on nothing but the seed and what was known: two rounds in one call.
    assert search([standing()], rounds=2, evaluations=12) == [two]


def test_the_seed_matters() -> None:
    space = Space(5, 9, 3)
    first, second = search(
        [standing(space=space), standing(space=space, seed=1)], rounds=1, evaluations=10
    )
    assert first.cases != second.cases


@pytest.mark.slow
def test_the_number_of_processes_does_not_matter() -> None:
    todo = [standing(), standing("fcfs")]
    assert search(todo, rounds=1, jobs=2, evaluations=12) == search(todo, rounds=1, evaluations=12)


def test_time_ends_a_search_after_one_round_of_each() -> None:
    todo = [standing(space=Space(2, 4)), standing("fcfs", Space(2, 4))]
    found = search(todo, seconds=0, evaluations=5)
    assert [one.rounds for one in found] == [1, 1]


def test_an_archive_keeps_the_best_and_of_equals_the_smallest() -> None:
    def draft(large: int) -> Draft:
        """MC-SF serves the large ones first: 10/9 for one, 15/13 for two, 21/18 for three."""
        return Draft(12, (*[(0, 11, 1)] * large, *[(0, 1, 2)] * 3))

    def ended(*drafts: Draft, endless: tuple[Draft, str] | None = None) -> IslandResult:
        return IslandResult(tuple((Fraction(9), one) for one in drafts), 10, endless)

    one = Draft(9, ((0, 1, 1),))
    found = standing(space=Space(6, 12)).after(
        [
            ended(draft(1), endless=(one, "livelock")),
            ended(draft(2), endless=(Draft(8, one.rows), "stalled")),
        ]
    )
    assert [case.draft for case in found.cases] == [draft(2), draft(1)]
    assert (found.evaluations, found.unproved, found.rounds) == (20, 0, 1)
    assert found.endless == (Draft(8, one.rows), "stalled")
    # What was known stays where nothing better came; a score below the worst kept is not proved.
    low = IslandResult(((Fraction(1), draft(3)),), 10, None)
    assert found.after([low]).cases == found.cases
    more = found.after([ended(draft(3))])
    assert [case.draft for case in more.cases] == [draft(3), draft(2)]
    assert KEPT == 2


@pytest.mark.parametrize("limits", [{"jobs": 0}, {"rounds": 0}, {"evaluations": 0}])
def test_bad_limits_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(limits))):
        search([standing()], **limits)  # type: ignore[arg-type]


def worst_of_all(name: str, requests: int, memory: int, latest: int) -> Fraction:
    """The worst ratio by enumeration: every instance, in every order of appearance."""
    worst = Fraction(0)
    for limit in range(2, memory + 1):
        kinds = [(s, o) for s in range(1, limit) for o in range(1, limit - s + 1)]
        for count in range(1, requests + 1):
            for later in combinations_with_replacement(range(latest + 1), count - 1):
                for lengths in product(kinds, repeat=count):
                    rows = zip((0, *later), lengths, strict=True)
                    instance = Draft(limit, tuple((a, s, o) for a, (s, o) in rows)).instance()
                    run = simulate(instance, name).total_latency
                    worst = max(worst, Fraction(run, optimal_total_latency(instance)[0]))
    return worst


@pytest.mark.parametrize("name", ["mc-sf", "fcfs"])
@pytest.mark.parametrize(("requests", "memory", "latest"), [(2, 4, 1), (3, 4, 0)])
def test_a_search_of_a_tiny_space_finds_its_worst(
    name: str, requests: int, memory: int, latest: int
) -> None:
    (found,) = search([standing(name, Space(requests, memory, latest))], evaluations=100)
    assert ratios(found)[0] == worst_of_all(name, requests, memory, latest)


def test_the_interleaved_trap_is_the_worst_of_all_small_instances() -> None:
    """As docs/worst-case.md says of one large and two small requests."""
    assert worst_of_all("mc-sf", 3, 4, 0) == Fraction(3, 2)
