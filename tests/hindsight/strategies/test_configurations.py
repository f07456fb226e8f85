"""Phases of the strategy of configurations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import hindsight
from hindsight.configurations.ascent import ConfigurationAscent
from hindsight.outcomes.solve_state import SolveState
from hindsight.runtime.clock import Clock
from hindsight.strategies.beams import LargeSearch
from hindsight.strategies.configurations import Configurations, ConfigurationSearch
from instances import Instance


@pytest.mark.parametrize(("copies", "is_searched"), [(30, True), (1, False)])
def test_requests_of_few_kinds_are_searched_under_the_first_prices(
    copies: int, is_searched: bool
) -> None:
    kinds = 60 // copies
    lengths = [1 + k % 9 for k in range(kinds)], [1 + k % 7 for k in range(kinds)]
    instance = Instance.from_arrays(*(one * copies for one in lengths), memory_limit=40)
    parts: list[str] = []

    class Recorded(ConfigurationSearch):
        def _improve_prices(self, work: int) -> int:
            parts.append("prices")
            return super()._improve_prices(work)

        def _exhaust(self, states: int) -> None:
            parts.append("search")
            super()._exhaust(states)

    state = SolveState(instance, Clock(should_stop=lambda: "prices" in parts))
    state.offer(hindsight.best_list_schedule(instance))
    Recorded(state, 0, 1, Configurations(states=1000, moves=1000)).run()
    # Beams of the schedules beside count nodes too; where the search proves it prices never ascend.
    assert (parts[0] == "search") == is_searched


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("few_requests", "is_ruined"), [(28, True), (40, False)])
def test_schedules_are_ruined_unless_requests_are_few(
    threads: int, few_requests: int, is_ruined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruined: list[bool] = []
    run = LargeSearch.run

    def noted(*arguments: Any, **options: Any) -> None:
        ruined.append(True)
        run(*arguments, **options)

    monkeypatch.setattr(LargeSearch, "run", noted)
    lengths = [1 + k % 9 for k in range(40)], [1 + k % 7 for k in range(40)]
    instance = Instance.from_arrays(*lengths, memory_limit=40)
    parameters = Configurations(few_requests=few_requests, fewest_ruined=36, moves=1000)
    state = SolveState(instance, Clock(3.0, should_stop=lambda: bool(ruined)))
    state.offer(hindsight.best_list_schedule(instance))
    ConfigurationSearch(state, 0, threads, parameters).run()
    assert bool(ruined) == is_ruined


def test_cycles_do_not_wait_for_the_end_of_an_ascent(monkeypatch: pytest.MonkeyPatch) -> None:
    ruined: list[bool] = []
    ascending: list[bool] = []

    def endless(*_: object, should_stop: Callable[[], bool], **__: object) -> float:
        ascending.append(True)
        while not should_stop():
            time.sleep(0.01)
        return 0.0

    def noted(*_: object, **__: object) -> None:
        ruined.extend(ascending)

    monkeypatch.setattr(ConfigurationAscent, "ascend", endless)
    monkeypatch.setattr(LargeSearch, "run", noted)
    lengths = [1 + k % 9 for k in range(40)], [1 + k % 7 for k in range(40)]
    instance = Instance.from_arrays(*lengths, memory_limit=40)
    state = SolveState(instance, Clock(30.0, should_stop=lambda: bool(ruined)))
    state.offer(hindsight.best_list_schedule(instance))
    ConfigurationSearch(state, 0, 1, Configurations(moves=1000)).run()
    assert ruined
