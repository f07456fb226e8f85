"""The search: its bookkeeping, its determinism, and what it must find."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest
from brute_force import optimal_total_latency

from instances import InvalidValueError
from online import simulate
from online.policy_interface.specs import PolicySpec
from online.worst_cases import Space, WorstCases, search
from online.worst_cases.drafts import Draft
from online.worst_cases.search import KEPT, Population

SMALL = Space(4, 8, 4)


def test_a_round_proves_what_it_finds_and_the_next_builds_on_it() -> None:
    news: list[WorstCases] = []
    two = search("mc-sf", SMALL, rounds=2, evaluations=12, progress=news.append)
    one, last = news
    assert last == two
    assert (one.rounds, two.rounds) == (1, 2)
    for case in two.cases:
        instance = case.draft.instance()
        assert SMALL.repaired(*case.draft) == case.draft
        optimum, _ = optimal_total_latency(instance)
        assert case.cost == simulate(instance, "mc-sf").total_latency
        assert case.optimum == optimum
    assert two.cases[0].ratio >= one.cases[0].ratio > 1
    assert search("mc-sf", SMALL, rounds=1, evaluations=12) == one


def test_the_seed_matters() -> None:
    first, second = (search("mc-sf", Space(5, 9, 3), seed=k, evaluations=10) for k in (0, 1))
    assert first.cases != second.cases


def test_ctrl_c_keeps_finished_rounds() -> None:
    def press(news: WorstCases) -> None:
        if news.rounds == 2:
            raise KeyboardInterrupt

    assert search("mc-sf", SMALL, rounds=9, evaluations=5, progress=press).rounds == 2


def test_the_best_are_kept_and_of_equals_the_smallest() -> None:
    def draft(large: int) -> Draft:
        """MC-SF serves the large ones first: 10/9 for one, 15/13 for two, 21/18 for three."""
        return Draft(12, (*[(0, 11, 1)] * large, *[(0, 1, 2)] * 3))

    def ended(*drafts: Draft, endless: tuple[Draft, str] | None = None) -> Population:
        return Population(tuple((Fraction(9), one) for one in drafts), endless)

    one = Draft(9, ((0, 1, 1),))
    found = WorstCases(PolicySpec("mc-sf"), Space(6, 12)).after(
        [
            ended(draft(1), endless=(one, "livelock")),
            ended(draft(2), endless=(Draft(8, one.rows), "stalled")),
        ]
    )
    assert [case.draft for case in found.cases] == [draft(2), draft(1)]
    assert found.rounds == 1
    assert found.endless == (Draft(8, one.rows), "stalled")
    told = f"mc-sf, all at once, n <= 6, M <= 12: 1.1538 on {draft(2)}"
    assert str(found) == f"{told}; never ends on M=8: (1, 1)"
    assert str(replace(found, cases=())).endswith("no optimum was proved")
    # A score that is not above the worst ratio kept is not proved.
    low = Population(((Fraction(1), draft(3)),), None)
    assert found.after([low]).cases == found.cases
    more = found.after([ended(draft(3))])
    assert [case.draft for case in more.cases] == [draft(3), draft(2)]
    assert KEPT == 2


@pytest.mark.parametrize("limits", [{"seed": -1}, {"rounds": 0}, {"evaluations": 0}])
def test_bad_limits_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(limits))):
        search("mc-sf", SMALL, **limits)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="is not one policy"):
        search(["mc-sf", "fcfs"], SMALL)  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("name", "requests", "memory", "latest", "worst"),
    [
        # As docs/worst-case.md says of one large and two small requests.
        ("mc-sf", 3, 4, 0, Fraction(3, 2)),
        ("fcfs", 3, 4, 0, Fraction(12, 7)),
        pytest.param("mc-sf", 2, 4, 1, None, marks=pytest.mark.slow),
        pytest.param("fcfs", 2, 4, 1, None, marks=pytest.mark.slow),
    ],
)
def test_a_search_of_a_tiny_space_finds_its_worst(
    name: str, requests: int, memory: int, latest: int, worst: Fraction | None
) -> None:
    found = search(name, Space(requests, memory, latest), evaluations=50)
    assert found.cases[0].ratio == worst_of_all(name, requests, memory, latest)
    assert worst in (None, found.cases[0].ratio)
