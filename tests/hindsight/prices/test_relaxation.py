"""The relaxation from prices against the model of all starts, and what it claims when it stops."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from brute_force import optimal_total_latency
from effort import behind

import hindsight
import online
from hindsight import relaxation
from hindsight.outcomes.errors import SolverError
from hindsight.prices import tokens
from hindsight.prices.ascent import Evaluation, Stage, ascend
from hindsight.prices.idle_gaps import compress
from hindsight.prices.starts import request_classes
from hindsight.prices.tokens import TokenDual, price_bound, round_prices
from hindsight.prices.volume import fill_by_volume, filling_prices, mean_busy_time_bound
from hindsight.relaxation import relax_until
from hindsight.rounds.token_relaxation import TokenRelaxation
from hindsight.runtime import clock as clock_module
from hindsight.runtime.clock import Clock, StoppedEarlyError, never
from hindsight.runtime.search import Search
from instances import Instance, Request, generate
from instances.arrays import FloatArray


def drawn(seed: int, n: int) -> Instance:
    """Short and long requests, all at once or arriving, some of them alike."""
    rng = np.random.default_rng([83, seed, n])
    limit = int(rng.integers(20, 61))
    long = rng.random(n) < 0.3
    prompts = np.where(long, rng.integers(5, limit // 2, n), rng.integers(1, 5, n))
    outputs = np.where(long, rng.integers(3, limit // 2, n), rng.integers(1, 6, n))
    arrivals = rng.integers(0, int(rng.choice([1, n, 4 * n])), n)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)


def assert_same_value(instance: Instance) -> None:
    rows = hindsight.relax(instance, method="lp", threads=1)
    scale = hindsight.relax(instance, method="lagrangian", tolerance=1e-7, threads=1)
    assert scale.method == "lagrangian"
    assert scale.objective == pytest.approx(rows.objective, rel=1e-4)
    assert 0 <= rows.certified_bound - scale.certified_bound <= 1
    assert scale.objective <= rows.objective * (1 + 1e-9)
    bound = price_bound(instance, scale.prices)
    assert scale.certified_bound == bound.bound
    assert scale.objective == bound.scaled_value / bound.prices.denominator
    assert (scale.expected_start_times >= instance.arrival_times).all()
    starts = instance.weights @ scale.expected_start_times
    own = instance.weights @ (instance.output_lengths - instance.arrival_times)
    assert starts + own == pytest.approx(rows.objective, rel=1e-3)


def arriving(seed: int, n: int) -> Instance:
    """Requests that keep arriving, at loads from a third to three times the capacity."""
    rng = np.random.default_rng([84, seed, n])
    limit = int(rng.integers(15, 61))
    prompts, outputs = rng.integers(1, limit // 2, n), rng.integers(1, limit // 2, n)
    volume = float((prompts * outputs + outputs * (outputs + 1) / 2).mean())
    gap = volume / limit / rng.uniform(0.3, 3)
    arrivals = np.floor(np.cumsum(rng.exponential(gap, n))).astype(np.int64)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)


@pytest.mark.parametrize("seed", behind(range(44), 6))
@pytest.mark.parametrize("family", [drawn, arriving])
def test_value_of_the_model_of_all_starts(
    family: Callable[[int, int], Instance], seed: int
) -> None:
    """[W25] Equations (8)-(11)."""
    assert_same_value(family(seed, 4 + seed))


@pytest.mark.parametrize("seed", range(10))
def test_bounds_of_arriving_requests_enclose_brute_force(seed: int) -> None:
    instance = arriving(seed, 4)
    optimum, _ = optimal_total_latency(instance)
    relaxed = hindsight.relax(instance, method="lagrangian")
    assert relaxed.certified_bound <= optimum
    assert relaxed.objective <= optimum


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "n"),
    [
        ("arrival-model-1", 60),
        ("arrival-model-2", 60),
        ("uniform", 100),
        ("mixed", 100),
        ("drawn", 200),
        ("drawn", 300),
    ],
)
def test_value_of_the_model_of_all_starts_with_hundreds(family: str, n: int) -> None:
    assert_same_value(drawn(0, n) if family == "drawn" else generate(family, seed=0, n=n))


@pytest.mark.parametrize("seed", range(8))
def test_a_coarse_tolerance_is_met(seed: int) -> None:
    instance = drawn(seed, 7)
    rows = hindsight.relax(instance, method="lp", threads=1)
    scale = hindsight.relax(instance, method="lagrangian", tolerance=0.05, threads=1)
    assert 0.95 * rows.objective <= scale.objective <= rows.objective * (1 + 1e-9)


def test_large_memory_leaves_prices_exact_enough() -> None:
    """Prices of a token are about 1 / M: their rounding must not cost the tolerance."""
    instance = Instance([Request(0, 33_333, 8) for _ in range(4)], memory_limit=100_000)
    relaxed = hindsight.relax(instance, method="lagrangian", tolerance=1e-6)
    value = hindsight.relax(instance, method="lp").objective
    assert relaxed.objective == pytest.approx(value, rel=1e-6)


def test_no_time_leaves_the_volume_bound() -> None:
    instance = drawn(5, 30)
    relaxed = hindsight.relax(instance, method="lagrangian", time_limit=0)
    assert relaxed.stop_reason == "time-limit"
    assert relaxed.certified_bound >= mean_busy_time_bound(instance)
    assert (relaxed.expected_start_times >= instance.arrival_times).all()


def test_control_c_returns_what_is_proved() -> None:
    instance = drawn(2, 60)
    seen: list[hindsight.Progress] = []

    def press(line: hindsight.Progress) -> None:
        seen.append(line)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    relaxed = hindsight.relax(instance, method="lagrangian", tolerance=1e-12, progress=press)
    assert relaxed.stop_reason == "interrupted"
    assert relaxed.certified_bound > 0


def test_progress_only_improves() -> None:
    lines: list[hindsight.Progress] = []
    hindsight.relax(drawn(4, 12), method="lagrangian", tolerance=1e-7, progress=lines.append)
    # With an empty cache, loops are compiled on the way.
    phases = {line.phase for line in lines if not line.phase.startswith("compiling")}
    assert phases == {"start", "prices"}
    for before, after in pairwise(lines):
        assert after.lower_bound >= before.lower_bound
        assert after.nodes >= before.nodes
    assert lines[-1].nodes > lines[0].nodes


def test_arrivals_over_time_prove_more_than_volumes_and_outputs() -> None:
    """Volumes run in one round what takes o; outputs alone never wait: prices know of both."""
    rng = np.random.default_rng(17)
    n = 100
    arrivals = np.sort(rng.integers(0, 250, n))
    instance = Instance.from_arrays(
        rng.integers(1, 60, n), rng.integers(1, 60, n), arrivals, memory_limit=350
    )
    seen: list[int] = []
    relaxed = relax_until(
        lambda: len(seen) >= 12,
        instance,
        method="lagrangian",
        progress=lambda line: seen.append(line.lower_bound),
    )
    outputs = int(instance.output_lengths.sum())
    assert seen[0] >= max(outputs, mean_busy_time_bound(instance))
    assert relaxed.certified_bound > 1.1 * max(seen[0], outputs)
    assert relaxed.certified_bound == price_bound(instance, relaxed.prices).bound
    assert relaxed.certified_bound <= hindsight.best_list_schedule(instance).total_latency


def test_size_is_never_an_error() -> None:
    """1,500 requests over some 8,000 rounds: 10 million starts."""
    rng = np.random.default_rng(5)
    prompts, outputs = rng.integers(1, 900, 1500), rng.integers(1, 200, 1500)
    instance = Instance.from_arrays(prompts, outputs, memory_limit=6000)
    relaxed = hindsight.relax(instance, time_limit=1)
    assert relaxed.method == "lagrangian"
    assert relaxed.certified_bound >= mean_busy_time_bound(instance)


FAR = 10**9
BLOCKS = [
    ([3, 1, 2, 4], [4, 3, 5, 2], [0, 0, 1, 2]),
    ([2, 5, 1], [6, 2, 3], [0, 3, 3]),
    ([4], [5], [0]),
]


@pytest.mark.slow
def test_blocks_far_apart_have_the_sum_of_their_values() -> None:
    order = [5, 0, 7, 2, 6, 1, 4, 3]
    columns = [
        np.concatenate([np.array(BLOCKS[k][c]) + (k * FAR if c == 2 else 0) for k in range(3)])
        for c in range(3)
    ]
    prompts, outputs, arrivals = (column[order] for column in columns)
    instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=10)
    relaxed = hindsight.relax(instance, tolerance=1e-7)
    alone = [Instance.from_arrays(*block, memory_limit=10) for block in BLOCKS]
    value = sum(hindsight.relax(each, method="lp").objective for each in alone)
    assert relaxed.method == "lagrangian"
    assert relaxed.instance is instance
    assert relaxed.objective == pytest.approx(value, rel=1e-4)
    assert relaxed.certified_bound <= sum(hindsight.solve(each).upper_bound for each in alone)
    waits = relaxed.expected_start_times - instance.arrival_times
    assert waits.min() >= 0
    assert float((waits + instance.output_lengths).sum()) == pytest.approx(value, rel=1e-3)
    own = compress(instance).instance
    assert price_bound(own, relaxed.prices).bound == relaxed.certified_bound


def test_gaps_of_moderate_length_stay() -> None:
    """Their prices then belong to the rounds of the instance itself."""
    instance = Instance.from_arrays([2, 3], [3, 2], [0, 5000], memory_limit=8)
    relaxed = hindsight.relax(instance, method="lagrangian")
    assert relaxed.certified_bound == price_bound(instance, relaxed.prices).bound == 5


@pytest.mark.slow
def test_two_thousand_requests_within_one_percent() -> None:
    instance = generate("mixed-long-short", seed=0, n=2000)
    relaxed = hindsight.relax(instance, tolerance=0.01)
    assert relaxed.stop_reason == "tolerance"
    assert relaxed.certified_bound == price_bound(instance, relaxed.prices).bound


class Looks:
    """Looks at a clock, of which the last says that time is up."""

    def __init__(self, until: int | None = None) -> None:
        self.until = until
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return self.until is not None and self.count >= self.until


def smooth_dual(must_stop: Callable[[], bool] = never) -> tuple[TokenDual, FloatArray]:
    """The dual of some requests, and variables of prices that are too low."""
    instance = generate("mixed", seed=0, n=30)
    classes = request_classes(instance)
    assert len(classes.counts) == 27
    dual = TokenDual(classes, instance.memory_limit, 300, must_stop=must_stop)
    return dual, dual.variables(np.full(300, 1e-3))


def climbed(steps: int, looks: Looks | None = None) -> tuple[FloatArray, list[Evaluation]]:
    """Variables after some steps at a heat of 1, and all evaluations at a step."""
    dual, x = smooth_dual(looks or never)
    found: list[Evaluation] = []

    def stepped(_: FloatArray, one: Evaluation) -> None:
        found.append(one)

    stage, stop = Stage(steps, (1.0, 1.0)), looks or never
    x = ascend(dual.evaluate, x, (stage,), stepped=stepped, must_stop=stop)
    return x, found


def test_the_clock_is_looked_at_within_every_pass_over_the_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One pass over 100,000 requests takes longer than many a time limit."""
    whole, found = climbed(5)
    assert len(found) == 6
    monkeypatch.setattr(clock_module, "SLICE_SECONDS", 0.0)
    # Slices that take too long are of one of the 27 kinds of request, and a look between any two.
    looks = Looks()
    sliced, same = climbed(5, looks)
    assert looks.count >= 26 * 6
    assert (sliced == whole).all()
    assert same[-1].value == found[-1].value
    assert (same[-1].solution.usage == found[-1].solution.usage).all()
    # Wherever it is stopped, what it returns is what it had after its last whole step.
    dual, x = smooth_dual(Looks(1))
    with pytest.raises(StoppedEarlyError):
        dual.evaluate(x, 1.0)
    ends = []
    for until in range(1, looks.count, 13):
        stop = Looks(until)
        stopped, found = climbed(5, stop)
        assert stop.count == until
        settled, same = climbed(len(found) - 1) if len(found) > 1 else (smooth_dual()[1], found)
        assert (stopped == settled).all()
        ends.append(len(found))
        assert [one.value for one in found] == [one.value for one in same]
    assert len(set(ends)) > 1


def test_climbing_goes_up_to_memory_that_fits() -> None:
    """Where the smoothed dual is best, no round of positive price holds anything but M."""
    dual, _ = smooth_dual()
    x, found = climbed(400)
    before, now = found[0], found[-1]
    assert now.smooth > before.smooth
    assert now.solution.usage.max() < dual.capacity * 1.02 < before.solution.usage.max()
    prices = dual.prices(x)
    priced = prices > 1e-2 * prices.max()
    assert now.solution.usage[1:301][priced] == pytest.approx(dual.capacity, rel=0.05)


def test_one_price_may_stand_for_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    single, fine = climbed(60)
    own = smooth_dual()[0].prices(single)
    monkeypatch.setattr(tokens, "MOST_PRICES", 80)
    dual, x = smooth_dual()
    assert dual.prices(x) == pytest.approx(1e-3)
    shared, coarse = climbed(60)
    prices = dual.prices(shared)
    assert len(prices) == 300
    # Four rounds a price: 300 / 80, rounded up.
    assert (prices.reshape(-1, 4) == prices[::4, None]).all()
    # Dear where single ones are, and no two of these alike.
    dear = (own > 0).reshape(-1, 4).any(axis=1)
    assert ((prices[::4] > 0) == dear).all()
    assert len(set(prices[::4][dear])) == dear.sum() > 4
    # Coarser prices prove less, but nearly as much.
    assert 0.98 * fine[-1].smooth < coarse[-1].smooth < fine[-1].smooth


def test_the_exact_bound_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "SLICE_SECONDS", 0.0)
    instance = drawn(2, 12)
    prices = round_prices(filling_prices(fill_by_volume(instance)), instance)
    looks = Looks()
    bound = price_bound(instance, prices, should_stop=looks)
    assert bound.scaled_value == price_bound(instance, prices).scaled_value
    assert looks.count == len(request_classes(instance).counts) - 1
    with pytest.raises(StoppedEarlyError):
        price_bound(instance, prices, should_stop=Looks(3))


def test_every_look_can_be_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fine the slices: what is returned is proved, and nothing goes on after it."""
    monkeypatch.setattr(clock_module, "SLICE_SECONDS", 0.0)
    instance = drawn(3, 8)
    value = hindsight.relax(instance, method="lp").objective
    # Past the list schedule, which few requests are given the time for.
    for until in (*range(1, 40), *range(40, 400, 37)):
        looks = Looks(until)
        values: list[float] = []
        relaxed = relax_until(
            looks,
            instance,
            method="lagrangian",
            tolerance=1e-9,
            progress=lambda line, values=values: values.append(line.lower_bound),  # type: ignore[misc]
        )
        assert values == sorted(values)
        assert relaxed.objective <= value * (1 + 1e-9)
        assert relaxed.certified_bound <= np.ceil(value - 1e-9)
        assert relaxed.expected_start_times.shape == (8,)
        # A few more looks find out where it stands; none of them goes with any work.
        assert looks.count <= until + 8


def test_a_broken_off_relaxation_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces it takes the same way, whatever was being done when a piece ended."""
    monkeypatch.setattr(clock_module, "SLICE_SECONDS", 0.0)
    instance = drawn(4, 12)
    whole = hindsight.relax(instance, method="lagrangian", tolerance=1e-6)
    clock = 0.0

    def tick() -> bool:
        nonlocal clock
        clock += 1.0
        return False

    monkeypatch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: clock))
    run = TokenRelaxation(instance, 1e-6, Search(Clock(None, tick)))
    pieces = 0
    values = []
    while not pieces or run.result().stop_reason not in ("tolerance", "stalled"):
        run.clock.allow(200.0)
        run.go_on()
        values.append(run.result().objective)
        pieces += 1
    assert pieces > 3
    assert values == sorted(values)
    found = run.result()
    assert found.stop_reason == whole.stop_reason
    assert found.objective == pytest.approx(whole.objective, rel=1e-5)


def test_weights_are_a_solution_whose_memory_is_told() -> None:
    """Usage and cost per round as the ascent has them, against Gibbs weights token by token."""
    rng = np.random.default_rng(11)
    n = 30
    prompts, outputs = rng.integers(1, 9, n), rng.integers(1, 30, n)
    instance = Instance.from_arrays(prompts, outputs, rng.integers(0, 60, n), memory_limit=50)
    prices = filling_prices(fill_by_volume(instance))
    c = request_classes(instance)
    dual = TokenDual(c, instance.memory_limit, len(prices))
    x = dual.variables(prices)
    found = dual.evaluate(x, 2.0)
    now = found.solution
    usage = np.zeros(len(now.usage))
    price = np.zeros(len(now.usage))
    price[1 : len(prices) + 1] = prices
    cost = 0.0
    for i, request in enumerate(instance):
        a, s, o = request.arrival_time, request.prompt_length, request.output_length
        at = np.arange(a, max(len(prices), a) + 1)
        paid = (
            at
            + o
            + np.array([sum(price[t + j] * (s + j) for j in range(1, o + 1)) for t in at.tolist()])
        )
        # Gibbs: every unit of priced cost more divides the weight by e^(1 / 2).
        share = np.exp((paid.min() - paid) / 2)
        share /= share.sum()
        assert now.mean_starts[c.class_of[i]] == pytest.approx(float(at @ share), rel=1e-4)
        cost += float((at + o - a) @ share)
        for t, w in zip(at.tolist(), share.tolist(), strict=True):
            usage[t + 1 : t + o + 1] += w * (s + np.arange(1, o + 1))
    assert now.cost == pytest.approx(cost, rel=1e-5)
    assert now.usage == pytest.approx(usage, abs=1e-2)
    # The gradient of the soft value, by the price of a single round.
    k = int(np.argmax(prices))
    step = dual.variables(1e-6 * (np.arange(len(prices)) == k))
    change = (dual.evaluate(x + step, 2.0).smooth - found.smooth) / step[k]
    assert change == pytest.approx(found.gradient[k], rel=1e-2)
    assert found.gradient[k] * step[k] / 1e-6 == pytest.approx(
        now.usage[k + 1] - instance.memory_limit, rel=1e-9
    )


@pytest.mark.slow
def test_policies_on_two_thousand_requests() -> None:
    """Expected starts at the default tolerance serve the policies that sort by them."""
    instance = generate("mixed-long-short", seed=0, n=2000)
    bound = mean_busy_time_bound(instance)
    shortest = online.simulate(instance, "mc-sf").total_latency
    for name in ("sorted-lp", "lp-swap"):
        run = online.simulate(instance, name)
        assert run.schedule.violations() == []
        assert bound <= run.total_latency < shortest
        # Orders by volume are within a tenth of the bound on such mixes; so must these be.
        assert run.total_latency <= 1.15 * bound


def test_what_building_takes_is_taken_off_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    given: list[float | None] = []
    build = relaxation.Program

    def build_slowly(*arguments: Any, **settings: Any) -> Any:
        nonlocal clock
        clock += 7.0
        return build(*arguments, **settings)

    def give_up(*_: Any, time_limit: float | None, **__: Any) -> None:
        given.append(time_limit)
        raise SolverError("enough")

    monkeypatch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: clock))
    monkeypatch.setattr(relaxation, "Program", build_slowly)
    monkeypatch.setattr(relaxation, "solve_linear", give_up)
    with pytest.raises(SolverError, match="enough"):
        hindsight.relax(drawn(0, 5), method="lp", time_limit=20)
    assert given == [13.0]


def test_the_schedules_before_the_rows_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 300 requests that skip each other they take seconds."""
    asked: list[bool] = []
    best = relaxation.best_list_schedule

    def listed(instance: Instance, should_stop: Any) -> Any:
        asked.append(should_stop())
        return best(instance, should_stop)

    monkeypatch.setattr(relaxation, "best_list_schedule", listed)
    with pytest.raises(SolverError, match="no time left"):
        hindsight.relax(drawn(0, 5), method="lp", time_limit=0)
    hindsight.relax(drawn(0, 5), method="lp", time_limit=60)
    with pytest.raises(SolverError, match="no time left"):
        relax_until(lambda: True, drawn(0, 5), method="lp")
    assert asked == [True, False, True]


def test_auto_goes_on_by_prices_where_highs_finds_no_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = drawn(0, 5)

    def give_up(*_: object) -> None:
        raise hindsight.SolverError("HiGHS found no optimum of the relaxation: unknown")

    value = hindsight.relax(instance, method="lp").objective
    monkeypatch.setattr(relaxation, "_relax_by_rows", give_up)
    relaxed = hindsight.relax(instance)
    assert relaxed.method == "lagrangian"
    assert 0.99 * value <= relaxed.objective <= value * (1 + 1e-9)
    with pytest.raises(hindsight.SolverError):
        hindsight.relax(instance, method="lp")


def test_prices_belong_to_the_instance_with_its_idle_gaps() -> None:
    arrivals = [0] * 6 + [2**21] * 6
    lengths = [3, 1, 2, 2, 3, 1] * 2, [5, 3, 2, 4, 6, 2] * 2
    instance = Instance.from_arrays(*lengths, arrivals, memory_limit=9)
    found = hindsight.relax(instance, method="lagrangian")
    schedule = hindsight.best_list_schedule(instance)
    document = hindsight.make_certificate(schedule, found.prices, search=False)
    assert document["lower_bound"] == found.certified_bound
