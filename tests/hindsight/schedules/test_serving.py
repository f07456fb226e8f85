"""A machine in seconds against a plain one that decides every round anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hindsight.schedules.machines import Machine, machine_of
from hindsight.schedules.serving import Rule, Run, serve
from instances import SecondsSchedule, Workload
from instances.batch_time.seconds_schedule import COLUMNS
from instances.service_level import Limits
from online import AffineTime

TIME = AffineTime(0.5, 0.0625, 0.015625)
RULE = Rule()


def drawn(seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 16))
    s, o = rng.integers(1, 20, n), rng.integers(1, 20, n)
    limit = int((s + o).max()) + int(rng.integers(0, 60))
    a = np.sort(rng.integers(0, 8 * n, n)) / 8
    return Workload(a, s, o, memory_limit=limit, batch_time=TIME)


def served(
    machine: Machine, own: np.ndarray, key: np.ndarray, rule: Rule, bound: float = math.inf
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the cost, who is late, and the stretches."""
    n = len(key)
    space = *np.full((4, n), -7), *np.full((3, n), np.nan)
    late = np.full(n, -7)
    run = Run(machine, rule, key, *space, late, np.empty((0, len(COLUMNS)), np.int64))
    table = np.empty((serve(run, own, bound)[1], len(COLUMNS)), np.int64)
    cost, _ = serve(run._replace(table=table), own, bound)
    return cost, late, table


class Plain:
    """A machine that decides every round anew, by the definition of a rule."""

    def __init__(self, workload: Workload, key: np.ndarray, rule: Rule) -> None:
        self.workload, self.key, self.rule = workload, key, rule
        self.rounds: dict[int, list[int]] = {i: [] for i in range(len(key))}
        self.s, self.o = workload.prompt_lengths.tolist(), workload.output_lengths.tolist()
        self.charges = machine_of(workload, None, recomputes=rule.recomputes).charges
        self.r = 0

    def left(self, i: int) -> int:
        return self.o[i] - len(self.rounds[i])

    def held(self, i: int) -> int:
        """Return what a request holds in the next round."""
        return self.s[i] + len(self.rounds[i]) + 1

    def tokens(self, i: int) -> int:
        done = len(self.rounds[i])
        stays = done > 0 and self.rounds[i][-1] == self.r
        return 1 if stays or (done > 0 and not self.rule.recomputes) else self.s[i] + done

    def rank(self, i: int) -> tuple[float, float]:
        if self.rule.reserves and self.rounds[i]:
            return 0, self.left(i)
        charge = self.rule.token * self.charges[0] * (self.tokens(i) + self.left(i) - 1)
        charge += self.charges[1] * sum(self.held(i) + k for k in range(self.left(i)))
        return 1, self.key[i] * charge**self.rule.charge

    def fits(self, batch: list[int]) -> bool:
        """Tell whether memory holds these requests: if it is reserved, until all complete."""
        lives = [(self.held(i) - 1, self.left(i) if self.rule.reserves else 1) for i in batch]
        return all(
            sum(before + k for before, left in lives if left >= k) <= self.workload.memory_limit
            for k in range(1, max(left for _, left in lives) + 1)
        )

    def choice(self, present: list[int]) -> list[int]:
        chosen: list[int] = []
        self.above = refused = tokens = prompts = 0
        for i in sorted(present, key=self.rank):
            if refused > self.rule.skips:
                break
            own = self.tokens(i)
            if own > 1 and (self.above or (prompts and tokens + own > self.rule.token_cap)):
                self.above += 1
            elif not self.fits([*chosen, i]):
                refused += 1
                if self.rule.fill > 0:
                    self.exchange(chosen, i)
            else:
                chosen.append(i)
                tokens += own
                prompts += own > 1
        return chosen

    def exchange(self, chosen: list[int], i: int) -> None:
        """Replace the chosen request of least value by one that does not fit, if memory allows."""
        value = {j: self.held(j) * self.rank(j)[1] ** -self.rule.fill for j in [*chosen, i]}
        others = [j for j in chosen if value[j] < value[i] and self.fits([*{*chosen} - {j}, i])]
        if others:
            chosen[chosen.index(min(others, key=value.__getitem__))] = i


def plain(workload: Workload, key: np.ndarray, rule: Rule) -> tuple[float, dict[int, list[int]]]:
    """Return the total latency and the rounds of each request, by the definition of a rule."""
    a, machine, t, total = workload.arrival_times, Plain(workload, key, rule), 0.0, 0.0
    chosen, seen = list[int](), list[int]()
    while any(machine.left(i) for i in machine.rounds):
        present = [i for i in machine.rounds if a[i] <= t and machine.left(i)]
        if not present:
            t = min(float(a[i]) for i in machine.rounds if a[i] > t)
            continue
        # With exchanges, a batch stays as it is until something happens.
        stays = rule.fill > 0 and present == seen and not machine.above and machine.fits(chosen)
        if not stays:
            chosen, seen = machine.choice(present), present
        t += 0.5 + 0.0625 * sum(map(machine.tokens, chosen))
        t += 0.015625 * sum(map(machine.held, chosen))
        machine.r += 1
        for i in chosen:
            machine.rounds[i].append(machine.r)
            total += 0.0 if machine.left(i) else t - float(a[i])
    return total, machine.rounds


@pytest.mark.parametrize("seed", range(60))
def test_a_run_is_that_of_a_machine_which_decides_every_round(seed: int) -> None:
    workload, rng = drawn(seed), np.random.default_rng(seed)
    n = len(workload)
    rule = RULE._replace(
        charge=float(rng.choice([0.0, 0.5, 1.0])),
        skips=int(rng.integers(3)),
        token_cap=float(rng.choice([5, 20, math.inf])),
        reserves=bool(rng.integers(2)),
        recomputes=bool(rng.integers(2)),
        token=float(rng.choice([1.0, 4.0])),
    )
    rule = rule._replace(fill=0.0 if rule.reserves else float(rng.choice([0.0, 0.1, 0.5])))
    key = np.exp(rng.normal(size=n))
    machine = machine_of(workload, None, recomputes=rule.recomputes)
    cost, late, table = served(machine, np.arange(n), key, rule)
    total, rounds = plain(workload, key, rule)
    assert cost == pytest.approx(total)
    assert not late.any()
    schedule = SecondsSchedule(workload, table)
    assert not schedule.violations()
    assert schedule.total_latency == pytest.approx(total)
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
        left=float(rng.choice([-1, 0])), skips=n, patience=float(rng.choice([2, np.inf]))
    )
    machine = machine_of(workload, limits, recomputes=False)
    own = np.flatnonzero(rng.random(n) < 0.8)
    cost, late, _ = served(machine, own, np.ones(n), rule)
    assert cost == late[own].sum()
    assert (late[np.setdiff1d(np.arange(n), own)] == -7).all()
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
