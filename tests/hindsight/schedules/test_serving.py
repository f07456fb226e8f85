"""A machine in seconds against a plain one that decides every round anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hindsight.schedules.machines import Machine, machine_of
from hindsight.schedules.serving import Rule, Run, serve
from instances import SecondsSchedule, Workload
from instances.batch_time import AffineTime
from instances.batch_time.seconds_schedule import COLUMNS
from instances.service_level import Limits

TIME = AffineTime(0.5, 0.0625, 0.015625)
RULE = Rule(1.0, 0.0, 1.0, 0, math.inf, math.inf, 0.0, reserves=False, recomputes=False)


def drawn(seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 16))
    s, o = rng.integers(1, 20, n), rng.integers(1, 20, n)
    limit = int((s + o).max()) + int(rng.integers(0, 60))
    return Workload(
        np.sort(rng.integers(0, 8 * n, n)) / 8, s, o, memory_limit=limit, batch_time=TIME
    )


def served(
    machine: Machine, own: np.ndarray, key: np.ndarray, rule: Rule, bound: float = math.inf
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the cost, who is late, and the stretches."""
    n = len(key)
    space = *np.full((4, n), -7), *np.full((2, n), np.nan)
    late = np.full(n, -7)
    table = np.empty((0, len(COLUMNS)), np.int64)
    run = Run(machine, rule, key, *space, late, table)
    table = np.empty((serve(run, own, bound)[1], len(COLUMNS)), np.int64)
    cost, _ = serve(run._replace(table=table), own, bound)
    return cost, late, table


def fits(lives: list[tuple[int, int]], workload: Workload) -> bool:
    """Tell whether memory holds requests with these tokens for so many rounds more."""
    return all(
        sum(before + k for before, left in lives if left >= k) <= workload.memory_limit
        for k in range(1, max(left for _, left in lives) + 1)
    )


def plain(workload: Workload, key: np.ndarray, rule: Rule) -> tuple[float, dict[int, list[int]]]:
    """Return the total latency and the rounds of each request, by the definition of a rule."""
    a, s, o = workload.arrival_times, workload.prompt_lengths, workload.output_lengths
    token, held = machine_of(workload, None, recomputes=rule.recomputes).charges
    rounds: dict[int, list[int]] = {i: [] for i in range(len(a))}
    r, t, total = 0, 0.0, 0.0

    def tokens(i: int) -> int:
        done = len(rounds[i])
        stays = done > 0 and rounds[i][-1] == r
        return 1 if stays or (done > 0 and not rule.recomputes) else int(s[i]) + done

    def rank(i: int) -> tuple[float, float]:
        done = len(rounds[i])
        if rule.reserves and done:
            return 0, int(o[i]) - done
        left = int(o[i]) - done
        charge = token * (tokens(i) + left - 1)
        charge += held * sum(int(s[i]) + k for k in range(done + 1, int(o[i]) + 1))
        return 1, key[i] * charge**rule.charge

    while any(len(rounds[i]) < o[i] for i in rounds):
        open_ = [i for i in rounds if a[i] <= t and len(rounds[i]) < o[i]]
        if not open_:
            t = min(float(a[i]) for i in rounds if a[i] > t)
            continue
        following = min((float(one) for one in a if one > t), default=math.inf)
        if following - t < rule.wait:
            t = following
            continue
        chosen: list[int] = []
        prompts = refused = 0
        for i in sorted(open_, key=rank):
            if refused > rule.skips:
                break
            own = tokens(i)
            lives = [(int(s[j]) + len(rounds[j]), int(o[j]) - len(rounds[j])) for j in [*chosen, i]]
            if not fits(lives if rule.reserves else [(b, 1) for b, _ in lives], workload):
                refused += 1
            elif own == 1 or prompts == 0 or prompts + own <= rule.prompt_cap:
                chosen.append(i)
                prompts += own if own > 1 else 0
        stored = sum(int(s[i]) + len(rounds[i]) + 1 for i in chosen)
        t += 0.5 + 0.0625 * sum(map(tokens, chosen)) + 0.015625 * stored
        r += 1
        for i in chosen:
            rounds[i].append(r)
            total += t - float(a[i]) if len(rounds[i]) == o[i] else 0.0
    return total, rounds


@pytest.mark.parametrize("seed", range(60))
def test_a_run_is_that_of_a_machine_which_decides_every_round(seed: int) -> None:
    workload, rng = drawn(seed), np.random.default_rng(seed)
    n = len(workload)
    rule = RULE._replace(
        charge=float(rng.choice([0.0, 0.5, 1.0])),
        skips=int(rng.integers(3)),
        prompt_cap=float(rng.choice([5, 20, math.inf])),
        wait=float(rng.choice([0, 0.5])),
        reserves=bool(rng.integers(2)),
        recomputes=bool(rng.integers(2)),
    )
    key = np.exp(rng.normal(size=n))
    machine = machine_of(workload, None, recomputes=rule.recomputes)
    cost, late, table = served(machine, np.arange(n), key, rule)
    total, rounds = plain(workload, key, rule)
    assert cost == pytest.approx(total)
    assert not late.any()
    schedule = SecondsSchedule(workload, table)
    assert not schedule.violations()
    # Its rounds wait for a request only where that runs.
    assert schedule.total_latency <= total * (1 + 1e-9)
    assert rule.wait > 0 or schedule.total_latency == pytest.approx(total)
    is_stopped = any(one[-1] - one[0] >= len(one) for one in rounds.values())
    assert schedule.keeps_tokens == (is_stopped and not rule.recomputes)
    assert not (is_stopped and rule.reserves)
    ran = {i: [] for i in range(n)}
    for i, first, count, *_ in table.tolist():
        ran[i] += range(first, first + count)
    assert ran == rounds
    # A run ends early only where its cost is above the bound.
    assert served(machine, np.arange(n), key, rule, cost * (1 + 1e-9))[0] == cost
    assert served(machine, np.arange(n), key, rule, cost * (1 - 1e-9))[0] == math.inf


@pytest.mark.parametrize("seed", range(40))
def test_late_requests_are_those_of_the_schedule_and_of_those_left_out(seed: int) -> None:
    workload, rng = drawn(100 + seed), np.random.default_rng(seed)
    n = len(workload)
    limits = Limits(*(np.where(rng.random(n) < 0.3, np.inf, rng.uniform(1, 30, n)) for _ in "abc"))
    rule = RULE._replace(
        left=float(rng.choice([-1, 0])), begun=0.5, skips=n, patience=float(rng.choice([2, np.inf]))
    )
    machine = machine_of(workload, limits, recomputes=False)
    own = np.flatnonzero(rng.random(n) < 0.8)
    cost, late, _ = served(machine, own, np.ones(n), rule)
    assert cost == late[own].sum()
    assert (late[np.setdiff1d(np.arange(n), own)] == -7).all()
    if cost == 0:
        return
    assert served(machine, own, np.ones(n), rule, cost - 1)[0] == math.inf
    assert served(machine, own, np.ones(n), rule, cost)[0] == cost


def test_a_request_that_cannot_be_on_time_makes_way_for_one_that_can() -> None:
    time = AffineTime(1.0, 0.0, 0.0)
    workload = Workload([0.0, 0.0], [3, 3], [4, 4], memory_limit=7, batch_time=time)
    limits = Limits(np.array([2.0, 6.0]), *np.full((2, 2), np.inf))
    machine = machine_of(workload, limits, recomputes=False)
    cost, late, table = served(machine, np.arange(2), np.ones(2), RULE)
    assert (cost, late.tolist()) == (1.0, [1, 0])
    assert table[:, 0].tolist() == [1]
