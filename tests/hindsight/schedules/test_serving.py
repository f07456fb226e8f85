"""A machine in seconds against a plain one that decides every round anew."""

from __future__ import annotations

import math

import numpy as np
import pytest
from enumeration import Work
from tiny_problems import seconds_of

from hindsight.schedules.machines import Machine, machine_of
from hindsight.schedules.serving import Rule, Run, serve
from instances import SecondsSchedule, Workload
from instances.batch_time.seconds_schedule import COLUMNS
from instances.service_level import Limits
from online import AffineTime, TiledTime

TIMES = (
    AffineTime(0.5, 0.0625, 0.015625),
    TiledTime(
        (2, 8, 40),
        (0.5, 0.625, 4.5),
        2,
        kernel=0.0625,
        kv_token=0.015625,
        prompt_square=0.0078125,
        prompt_past=0.00390625,
    ),
)
RULE = Rule()


def drawn(seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 16))
    s, o = rng.integers(1, 20, n), rng.integers(1, 20, n)
    limit = int((s + o).max()) + int(rng.integers(0, 60))
    a = np.sort(rng.integers(0, 8 * n, n)) / 8
    return Workload(a, s, o, memory_limit=limit, batch_time=TIMES[seed % 2])


def served(
    machine: Machine, own: np.ndarray, key: np.ndarray, rule: Rule, bound: float = math.inf
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the cost, who is late, and the stretches."""
    n = len(key)
    space = *np.full((6, n), -7), *np.full((3, n), np.nan)
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
        self.ran: dict[int, list[int]] = {i: [] for i in range(len(key))}
        self.read, self.part = [0] * len(key), [0] * len(key)
        self.seconds = seconds_of(workload.batch_time)
        self.s, self.o = workload.prompt_lengths.tolist(), workload.output_lengths.tolist()
        self.charges = machine_of(workload, None, recomputes=rule.recomputes).charges
        self.r = 0

    def left(self, i: int) -> int:
        return self.o[i] - len(self.rounds[i])

    def held(self, i: int) -> int:
        """Return what a request holds in the next round."""
        return self.s[i] + len(self.rounds[i]) + 1

    def stays(self, i: int) -> bool:
        return bool(self.ran[i]) and self.ran[i][-1] == self.r

    def tokens(self, i: int) -> int:
        done, is_kept = len(self.rounds[i]), self.stays(i) or not self.rule.recomputes
        is_read = is_kept and done > 0 and self.read[i] == 0
        return 1 if is_read else self.s[i] + done - (self.read[i] if is_kept else 0)

    def rank(self, i: int) -> tuple[float, float]:
        if self.rule.reserves and self.rounds[i]:
            return 0, self.left(i)
        if self.rule.recomputes and self.stays(i) and self.read[i] > 0:
            return 1, 0.0
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
            own = self.part[i] = self.tokens(i)
            is_last = (prompts or self.rule.cuts) and tokens + own > self.rule.token_cap
            if own > 1 and self.rule.cuts and is_last and not self.above:
                self.part[i] = max(1, int(self.rule.token_cap) - tokens)
            elif own > 1 and (self.above or is_last):
                self.above += 1
                continue
            self.above += self.part[i] < own
            if not self.fits([*chosen, i]):
                refused += 1
                if self.rule.fill > 0:
                    self.exchange(chosen, i)
            else:
                chosen.append(i)
                tokens += self.part[i]
                prompts += own > 1
        return chosen

    def exchange(self, chosen: list[int], i: int) -> None:
        """Replace the chosen request of least value by one that does not fit, if memory allows."""
        ranks = {j: max(self.rank(j)[1], 1e-300) for j in [*chosen, i]}
        value = {j: self.held(j) * ranks[j] ** -self.rule.fill for j in ranks}
        others = [j for j in chosen if value[j] < value[i] and self.fits([*{*chosen} - {j}, i])]
        if others:
            chosen[chosen.index(min(others, key=value.__getitem__))] = i

    def run(self, chosen: list[int]) -> float:
        """Run a round. Return its seconds."""
        works = []
        for i in chosen:
            own, part, whole = self.tokens(i), self.part[i], self.held(i) - 1
            is_prompt = not self.stays(i) or self.read[i] > 0
            works.append(Work(part, whole - own, whole + (part == own), is_prompt))
        self.r += 1
        for i, work in zip(chosen, works, strict=True):
            is_whole = work.before + work.tokens == self.held(i) - 1
            self.read[i] = 0 if is_whole or not work.is_prompt else work.before + work.tokens
            self.ran[i].append(self.r)
            if not self.read[i]:
                self.rounds[i].append(self.r)
        return float(self.seconds(works))


def plain(workload: Workload, key: np.ndarray, rule: Rule) -> tuple[float, dict[int, list[int]]]:
    """Return the total latency and the rounds in which each request runs, by the definition."""
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
        for i in chosen if stays else ():
            machine.part[i] = machine.tokens(i)
        t += machine.run(chosen)
        total += sum(t - float(a[i]) for i in chosen if not machine.left(i))
    return total, machine.ran


@pytest.mark.parametrize("seed", range(120))
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
    fill = 0.0 if rule.reserves else float(rng.choice([0.0, 0.1, 0.5]))
    rule = rule._replace(fill=fill, cuts=bool(rng.integers(2)) and not rule.reserves)
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
    left, cap = float(rng.choice([-1, 0])), float(rng.choice([4, 30, np.inf]))
    rule = RULE._replace(left=left, skips=n, token_cap=cap, cuts=bool(rng.integers(2)))
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
