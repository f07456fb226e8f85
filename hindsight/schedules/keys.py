"""Schedules in seconds, improved by simulated annealing of sort keys and machines of the requests.

Each request has a machine and a sort key. `hindsight.schedules.serving` turns the keys of the
requests on a machine into a schedule, by a rule for each machine. The first schedule is the best of
several rules and assignments. Simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) then
changes the key of a request, moves it to another machine, or swaps it with a request on another
machine that arrives at about the same time. Only the changed machines are simulated again. If the
goal is requests on time, a request may also be rejected, which leaves machine time to others.

Deterministic: the schedule after k moves depends only on the arguments and the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.fleet_schedule import by_replica
from instances.service_level import Limits

from .assignments import assignments
from .machines import machine_of
from .serving import Rule, Run, State, serve

SKIPS = (0, 3, 10)
"""Numbers of waiting requests that may be skipped in a round because they do not fit."""

PROMPT_CAPS = (math.inf, 6.0, 3.0, 2.0, 1.5, 1.0, 0.5)
"""Caps on the prompt tokens of a round. Unit: the number of tokens that doubles the time of a round
of one token."""

WAITS = (0.0, 0.2)
"""Times for which a round may wait for an arrival. Unit: the time of a round of one token."""

EXPONENTS = (0.25, 0.0, 1.0, -0.3, 0.5)
"""Exponents: a sort key is the machine seconds of the whole request to this power. They are for
rules that preempt requests."""

SHAPES = ((1.0, 1.0), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 1.0))
"""Exponents, for goals with deadlines, of the remaining machine seconds and of the inverse of the
seconds until the deadline."""

BEGUN, DUE_CAPS, PATIENCE = (1.0, 0.1), (math.inf, 2.0, 0.5), (math.inf, 1.5)
"""Values of `Rule.begun`, `Rule.prompt_cap` (in the unit of `PROMPT_CAPS`) and `Rule.patience` for
goals with deadlines."""

SHORTLIST = 12
"""Number of rules, the best under the first assignment, that are tried with other assignments."""

NOBODY = -1
"""Machine number of a rejected request."""

FRUITLESS = 5
"""Consecutive annealings without a better schedule after which the search ends."""

FIRST_CYCLE, FIRST_WORK = (500, 3_000), 200_000
"""The first annealing has `FIRST_WORK` / n moves, but at least and at most these numbers of moves.
The k-th annealing has k times as many."""

HOT, COOLING = 0.15, 0.05
"""First temperature, and the last one as a share of the first. Unit: the mean latency times the
square root of the number of machines. With deadlines the temperature is 0."""

REACH = 0.6
"""Standard deviation of the change of the logarithm of a key in a move."""

KEY_SHARE, SEND_SHARE = 0.4, 0.7
"""Share of moves that change a key, and of moves that change a key or the machine of one request.
The others swap two requests."""

NEIGHBOURS = 3
"""Range of swaps per machine: with K machines, a request may be swapped with any of the next or
previous K `NEIGHBOURS` arrivals."""

LATE_SHARE, REJECTED = 0.5, 0.2
"""With deadlines: share of moves that choose a late request, and share of moves that reject one."""

SLICE_WORK = 20_000
"""Requests times moves between two polls of the stop condition."""

_NO_TABLE: IntArray = np.empty((0, len(COLUMNS)), np.int64)
"""Table without rows, for runs of which only the cost is needed."""


class _Way(NamedTuple):
    """Initial sort keys of the requests, and a rule."""

    key: FloatArray
    rule: Rule


class _Plan(NamedTuple):
    """Machine of each request, and sort keys and rule of each machine.

    Attributes
    ----------
    machine : int64 array, shape (n,)
        Machine of each request, or `NOBODY`.
    factor : float64 array, shape (n,)
        Factor on the initial key of each request; moves change it.
    ways : list of _Way, length K
        Initial keys and rule of each machine.
    costs : float64 array, shape (K,)
        Cost of the requests on each machine.
    late : int64 array, shape (n,)
        1 for requests that are late or rejected.
    """

    machine: IntArray
    factor: FloatArray
    ways: list[_Way]
    costs: FloatArray
    late: IntArray

    @property
    def cost(self) -> float:
        """Total latency, or number of late requests."""
        return float(self.costs.sum() + np.count_nonzero(self.machine == NOBODY))

    def copy(self) -> _Plan:
        """Return a copy that a move can change."""
        machine, factor, ways, costs, late = self
        return _Plan(machine.copy(), factor.copy(), ways, costs.copy(), late.copy())


class KeySearch:
    """Local search for the machines and sort keys of the requests of one workload.

    Parameters
    ----------
    workload : Workload
        The requests, with their batch time.
    seed : int
        Seed of the annealing.
    recomputes : bool, default False
        Whether a preempted request recomputes its prompt and tokens when it resumes.
    limits : Limits or None, default None
        Latency limits of each request. With limits the cost is the number of late requests; with
        None it is total latency.

    Attributes
    ----------
    cost : float
        Cost of the best schedule so far: total latency in seconds, or number of late requests.
    cycle : int
        Number of annealings completed.
    """

    def __init__(
        self,
        workload: Workload,
        seed: int,
        *,
        recomputes: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self._workload, self._limits = workload, limits
        self._rng = np.random.default_rng(seed)
        self._recomputes = recomputes
        self._machine = one = machine_of(workload, limits, recomputes=recomputes)
        token, held = one.charges
        self._volume = one.output * (one.held + (one.output + 1) / 2)
        self._charge = token * (one.prompt + one.output - 1) + held * self._volume
        n = len(workload)
        self._state = State(*np.empty((4, n), dtype=np.int64), *np.empty((2, n)))
        # More machines than requests are of no use.
        self._machines = min(workload.replicas, len(workload))
        self._best: _Plan | None = None
        self.cost = math.inf
        self._untried = self._open()
        self.cycle = 0

    def open(self, should_stop: Callable[[], bool]) -> None:
        """Try the remaining first schedules: assignments and rules, until ``should_stop``.

        The first one was tried at construction.
        """
        for _ in self._untried:
            if should_stop():
                break
        if self._limits is not None:
            self._reject()

    def anneal(self, should_stop: Callable[[], bool]) -> Iterator[float]:
        """Run annealings; yield each better cost.

        Ends after `FRUITLESS` annealings without a better cost.
        """
        fruitless, known = 0, self.cost
        first = sorted((*FIRST_CYCLE, FIRST_WORK // len(self._workload)))[1]
        while fruitless < FRUITLESS and not should_stop():
            fruitless += 1
            for _ in self._moves(first * (1 + self.cycle)):
                if self.cost < known:
                    known, fruitless = self.cost, 0
                    yield known
                if should_stop():
                    return
            self.cycle += 1

    def schedule(self) -> SecondsSchedule | FleetSchedule:
        """Return the best schedule of all requests so far; only for searches without limits."""
        found = self.on_time()
        assert found is not None
        return found[0]

    def on_time(self) -> tuple[SecondsSchedule | FleetSchedule, IntArray] | None:
        """Return a schedule of the requests on time, and their positions; None if all are late."""
        assert self._best is not None
        machine = np.where(self._best.late > 0, NOBODY, self._best.machine)
        parts: list[SecondsSchedule | None] = [None] * self._workload.replicas
        for k, own in enumerate(by_replica(machine, self._machines)):
            parts[k], served = self._part(k, own)
            machine[np.setdiff1d(own, served)] = NOBODY
        served = np.flatnonzero(machine != NOBODY)
        if not len(served):
            return None
        if self._workload.replicas == 1:
            assert parts[0] is not None
            return parts[0], served
        return FleetSchedule(self._workload.of(served), machine[served], parts), served

    def _ways(self) -> Iterator[_Way]:
        """Yield the sort keys and rules of the first schedules."""
        one, charge, seconds = self._machine, self._charge, self._machine.seconds
        n, most = len(charge), len(seconds) - 1
        doubled = seconds >= 2 * seconds[1]
        unit = int(doubled.argmax()) if doubled.any() else most
        again = self._recomputes
        if self._limits is not None:
            for begun, cap, power, patience, (share, left) in product(
                BEGUN, DUE_CAPS, (0.0, 1.0), PATIENCE, SHAPES
            ):
                rule = Rule(share, -left, begun, n, cap * unit, patience, 0.0, False, again)
                yield _Way(charge**power, rule)
            return
        caps = [cap * unit if cap * unit < most else math.inf for cap in PROMPT_CAPS]
        stops = Rule(1.0, 0.0, 1.0, 0, math.inf, math.inf, 0.0, False, again)
        reserves = stops._replace(charge=0.0, reserves=True)
        lengths = one.output + one.prompt / (one.prompt.max() + 1.0)
        kinds = [(charge**power, stops) for power in EXPONENTS]
        kinds += [(key, reserves) for key in (charge, self._volume, lengths)]
        for share, (key, rule), cap, skips in product(WAITS, kinds, dict.fromkeys(caps), SKIPS):
            wait = share * float(seconds[1])
            yield _Way(key, rule._replace(skips=skips, prompt_cap=cap, wait=wait))

    def _open(self) -> Iterator[None]:
        """Try all rules with the first assignment, and the best ones with each other assignment.

        Yields after each rule.
        """
        one, ways = self._machine, list(self._ways())
        factor = np.ones(len(self._charge))
        for number, machine in enumerate(
            assignments(one.arrival, one.held, self._charge, self._machines)
        ):
            parts, sums = by_replica(machine, self._machines), []
            chosen, costs = [ways[0]] * len(parts), np.full(len(parts), math.inf)
            late = np.zeros(len(factor), dtype=np.int64)
            for way in ways:
                trial = late.copy()
                found = np.array([self._cost(own, way, factor, math.inf, trial) for own in parts])
                sums.append(found.sum())
                for k in np.flatnonzero(found < costs).tolist():
                    chosen = [*chosen[:k], way, *chosen[k + 1 :]]
                    costs[k], late[parts[k]] = found[k], trial[parts[k]]
                if costs.sum() < self.cost:
                    self._best = _Plan(machine, factor, chosen, costs.copy(), late.copy())
                    self.cost = self._best.cost
                yield
            if number == 0:
                ways = [ways[place] for place in np.argsort(sums, kind="stable")[:SHORTLIST]]

    def _reject(self) -> None:
        """Reject all late requests, as long as that brings other requests on time."""
        while True:
            best = self._best
            assert best is not None
            plan = best.copy()._replace(machine=np.where(best.late > 0, NOBODY, best.machine))
            cost = self._serve_again(plan, range(self._machines), math.inf)
            if cost <= self.cost:
                self._best = plan
            if cost >= self.cost:
                return
            self.cost = cost

    def _moves(self, moves: int) -> Iterator[None]:
        """Run one annealing from the best plan; yield after each slice of moves."""
        plan = self._best
        assert plan is not None
        n, rng = len(plan.machine), self._rng
        hot = HOT * math.sqrt(self._machines) * plan.cost / n / (1 + self.cycle)
        if self._limits is not None:
            hot = 0.0
        cost = plan.cost
        for move in range(moves):
            allowed = cost + hot * COOLING ** (move / moves) * rng.exponential()
            trial, touched = self._proposal(plan)
            trial_cost = self._serve_again(trial, touched, allowed) if touched else math.inf
            if trial_cost <= allowed:
                plan, cost = trial, trial_cost
                if cost < self.cost:
                    self._best, self.cost = plan, cost
            if move % max(1, SLICE_WORK // n) == 0:
                yield
        yield

    def _proposal(self, plan: _Plan) -> tuple[_Plan, list[int]]:
        """Return a changed copy of a plan, and the machines that must be simulated again."""
        n, rng = len(plan.machine), self._rng
        trial = plan.copy()
        i, kind, there = int(rng.integers(n)), rng.random(), int(rng.integers(self._machines))
        if self._limits is not None and plan.late.any() and rng.random() < LATE_SHARE:
            i = int(rng.choice(np.flatnonzero(plan.late)))
        here, fresh = int(plan.machine[i]), math.exp(rng.normal(0.0, REACH))
        if here == NOBODY:
            trial.factor[i] = fresh
        elif self._limits is not None and rng.random() < REJECTED:
            there = NOBODY
        elif self._machines == 1 or kind < KEY_SHARE:
            trial.factor[i] *= fresh
            return trial, [here]
        elif kind >= SEND_SHARE:
            far = NEIGHBOURS * self._machines
            j = min(max(i + int(rng.integers(-far, far + 1)), 0), n - 1)
            there = int(plan.machine[j])
            trial.machine[j] = here
        trial.machine[i] = there
        return trial, [k for k in (here, there) if k != NOBODY and here != there]

    def _serve_again(self, plan: _Plan, touched: Sequence[int], allowed: float) -> float:
        """Simulate the machines ``touched``, and write their costs into the plan.

        Return the cost of the plan, infinite if it is above ``allowed``.
        """
        plan.costs[list(touched)] = 0.0
        if self._limits is not None:
            plan.late[plan.machine == NOBODY] = 1
        cost = plan.cost
        for k in touched:
            own = np.flatnonzero(plan.machine == k)
            plan.costs[k] = self._cost(own, plan.ways[k], plan.factor, allowed - cost, plan.late)
            cost += float(plan.costs[k])
        return cost

    def _cost(
        self, own: IntArray, way: _Way, factor: FloatArray, bound: float, late: IntArray
    ) -> float:
        run = Run(self._machine, way.rule, way.key * factor, self._state, late, _NO_TABLE)
        return serve(run, own, bound)[0]

    def _part(self, k: int, own: IntArray) -> tuple[SecondsSchedule | None, IntArray]:
        """Return a schedule of the requests in ``own`` that machine k completes on time, and these.

        The schedule is None if all are late.
        """
        assert self._best is not None
        way, late = self._best.ways[k], self._best.late.copy()
        while len(own):
            key = way.key * self._best.factor
            run = Run(self._machine, way.rule, key, self._state, late, _NO_TABLE)
            table = np.empty((serve(run, own, math.inf)[1], len(COLUMNS)), np.int64)
            serve(run._replace(table=table), own, math.inf)
            begins = table[:, 4] == 0
            table[begins, 5] = self._workload.prompt_lengths[table[begins, 0]]
            table[:, 0] = np.searchsorted(own, table[:, 0])
            schedule = SecondsSchedule(self._workload.alone(own), table)
            is_on_time = late[own] == 0
            if self._limits is not None:
                is_on_time &= schedule.keeps(self._limits.of(own))
            if is_on_time.all():
                return schedule, own
            # Without the late requests, the order changes and others may be late instead.
            own = own[is_on_time]
        return None, own
