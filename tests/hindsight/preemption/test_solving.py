"""The preemptive optimum against brute force, which shares no code with the package."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from drawn_instances import drawn_instance

import hindsight
import online
from hindsight.preemption.prices import preemptive_price_bound, round_preemptive_prices
from instances import Instance, InvalidTypeError, InvalidValueError

ELEVEN = Instance.from_arrays(
    [1] + [57] * 10, [62] + [1] * 10, [0, *range(10, 101, 10)], memory_limit=64
)


def preemptive_optimum(instance: Instance) -> int:
    """Breadth first over rounds: the least total over all sets of requests that may run."""
    rows = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    layer = {tuple(0 for _ in rows): 0}
    done = tuple(o for _, _, o in rows)
    best = None
    now = 0
    while layer:
        now += 1
        ahead: dict[tuple[int, ...], int] = {}
        for state, spent in layer.items():
            # Each round costs everyone who has arrived and is not done.
            waiting = sum(p < o and a < now for p, (a, _, o) in zip(state, rows, strict=True))
            may_run = [p < o and a < now for p, (a, _, o) in zip(state, rows, strict=True)]
            for runs in product(*[(0, 1) if may else (0,) for may in may_run]):
                tokens = sum(
                    s + p + 1 for go, p, (_, s, _) in zip(runs, state, rows, strict=True) if go
                )
                if tokens <= instance.memory_limit:
                    after = tuple(p + go for p, go in zip(state, runs, strict=True))
                    ahead[after] = min(ahead.get(after, 10**9), spent + waiting)
        if done in ahead:
            best = min(ahead.pop(done), 10**9 if best is None else best)
        layer = {s: c for s, c in ahead.items() if best is None or c < best}
    assert best is not None
    return best


def tiny(seed: int) -> Instance:
    return drawn_instance([41, seed], (1, 4), (3, 10), outputs=5, last_arrival=4)


def check_against_brute_force(seed: int) -> None:
    instance = tiny(seed)
    optimum = preemptive_optimum(instance)
    result = hindsight.solve_preemptive(instance)
    assert result.schedule.violations() == []
    assert (result.lower_bound, result.upper_bound) == (optimum, optimum), seed
    assert result.status == "optimal"
    assert result.stop_reason == "proof"
    # Stopped at once, what stands holds all the same.
    early = hindsight.solve_preemptive(instance, should_stop=lambda: True)
    assert early.lower_bound <= optimum <= early.upper_bound
    # Any prices at all give a bound.
    rng = np.random.default_rng(seed)
    for columns in (1, instance.memory_limit + 1):
        for scale in (0.05, 0.5):
            table = rng.exponential(scale, (14, columns)) * rng.integers(0, 2, (14, columns))
            prices = round_preemptive_prices(table)
            assert preemptive_price_bound(instance, prices) <= optimum


def test_tiny_instances() -> None:
    for seed in range(40):
        check_against_brute_force(seed)


@pytest.mark.slow
def test_more_tiny_instances() -> None:
    for seed in range(40, 240):
        check_against_brute_force(seed)


def test_a_long_request_that_stops_for_ten_short_ones() -> None:
    """Each of the six that arrive while the long one runs costs somebody a round."""
    result = hindsight.solve_preemptive(ELEVEN, time_limit=10)
    assert result.schedule.violations() == []
    assert result.upper_bound == 78
    assert 72 <= result.lower_bound <= 78
    assert result.lower_bound == result.certified_lower_bound


def test_bounds_without_time_are_those_of_lists_and_volumes() -> None:
    lines: list[hindsight.Progress] = []
    result = hindsight.solve_preemptive(ELEVEN, time_limit=0, callback=lines.append)
    assert result.stop_reason == "time-limit"
    assert result.lower_bound >= hindsight.mean_busy_time_bound(ELEVEN)
    assert result.lower_bound <= 78 <= result.upper_bound
    assert list(result.log) == lines


def test_bad_arguments() -> None:
    with pytest.raises(InvalidTypeError, match="is not an Instance"):
        hindsight.solve_preemptive(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="time_limit"):
        hindsight.solve_preemptive(ELEVEN, time_limit=-1)
    with pytest.raises(InvalidValueError, match="seed"):
        hindsight.solve_preemptive(ELEVEN, seed=-1)


def test_what_a_callback_raises_comes_out() -> None:
    def fail(line: hindsight.Progress) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        hindsight.solve_preemptive(ELEVEN, callback=fail)


class StepAside(online.Policy):
    """The latest request first; whoever was running keeps its tokens."""

    def reset(self, setup: object) -> None:
        self.waiting: list[int] = []

    def arrive(self, requests: Any, state: Any) -> None:
        self.waiting += [request.index for request in requests]

    def decide(self, state: Any) -> online.Decision:
        latest = [self.waiting.pop(self.waiting.index(max(self.waiting)))] if self.waiting else []
        return online.Decision(start=latest, preempt=list(state.running) if latest else [])


def test_ratios_do_not_mix_the_two_optima() -> None:
    pair = Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10)
    kept, plain = online.simulate(pair, StepAside()), online.simulate(pair, "mc-sf")
    whole, parts = hindsight.solve(pair), hindsight.solve_preemptive(pair)
    assert (whole.upper_bound, parts.upper_bound, kept.total_latency) == (12, 11, 11)
    found = online.ratio(kept, parts)
    assert found.preemptive
    assert found.exact == 1
    assert not online.ratio(plain, whole).preemptive
    against_parts = online.ratio(plain, parts, preemptive=True)
    assert against_parts.exact == Fraction(plain.schedule.total_latency, 11)
    with pytest.raises(online.MismatchError, match="without preemption"):
        online.ratio(kept, whole)
    with pytest.raises(online.MismatchError, match="preemptive optimum"):
        online.ratio(plain, parts)
    with pytest.raises(online.MismatchError, match="without preemption"):
        online.ratio(plain, whole, preemptive=True)
    with pytest.raises(online.NoScheduleError, match="kept their tokens"):
        online.ratio(kept, whole, preemptive=False)
