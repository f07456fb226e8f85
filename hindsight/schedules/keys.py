"""Schedules in seconds, improved by annealing of keys and machines.

A request has a machine and a key, and `hindsight.schedules.serving` turns the keys of a machine's
requests into its schedule, by a rule of the machine. Openings are the best of several rules and
assignments. Simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) then changes the key of a
request, sends it to another machine, or swaps it for one that arrives at about the same time. Only
the machines touched are served again. Where the goal is on time, a request may also have no
machine, which leaves its time to others.

Deterministic: the schedule after k moves depends on the arguments and the seed alone.
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
"""Caps on prompt tokens of a round, in units of those that double the length of a small round."""

WAITS = (0.0, 0.2)
"""Seconds that a round waits for a request, in lengths of a small round."""

EXPONENTS = (0.25, 0.0, 1.0, -0.3, 0.5)
"""Powers of the machine seconds of a whole request in its key, where requests are stopped."""

SHAPES = ((1.0, 1.0), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 1.0))
"""Powers of the machine seconds left and, inverted, of the seconds left until a deadline."""

BEGUN, DUE_CAPS, PATIENCE = (1.0, 0.1), (math.inf, 2.0, 0.5), (math.inf, 1.5)
"""Factors, caps and patience of rules with deadlines."""

SHORTLIST = 12
"""Rules that are tried with all assignments but the first."""

NOBODY = -1
"""Machine of a request that is not served."""

FRUITLESS = 5
"""Consecutive annealings without a better schedule after which the search ends."""

FIRST_CYCLE, FIRST_WORK = (500, 3_000), 200_000
"""Fewest and most moves of the first annealing, and requests times moves between them. The k-th one
has k times as many."""

HOT, COOLING = 0.15, 0.05
"""First temperature, in mean latencies times the root of the number of machines, and the last as a
share of it. With deadlines it is 0."""

REACH = 0.6
"""Standard deviation of a move, in the logarithm of a key."""

KEY_SHARE, SEND_SHARE = 0.4, 0.7
"""Share of moves that change a key; and of those that change one or send a request elsewhere."""

NEIGHBOURS = 3
"""Requests of each machine that arrive next to one that may be swapped for it, on either side."""

LATE_SHARE, REJECTED = 0.5, 0.2
"""Shares of moves with deadlines that take a late request, and that have one not served."""

SLICE_WORK = 20_000
"""Requests times moves between two schedules."""

_NO_TABLE: IntArray = np.empty((0, len(COLUMNS)), np.int64)
"""Stretches that are not to be written."""


class _Way(NamedTuple):
    """Keys of requests, before they move, and the rule."""

    key: FloatArray
    rule: Rule


class _Plan(NamedTuple):
    """Who serves which request, and how.

    Attributes
    ----------
    machine : int64 array, shape (n,)
        Machine of each request, or `NOBODY`.
    factor : float64 array, shape (n,)
        Factor on each key.
    ways : list of _Way, length K
        Keys and rule of each machine.
    costs : float64 array, shape (K,)
        Cost of each machine.
    late : int64 array, shape (n,)
        1 for requests that are late or not served.
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
        """Return a copy to change."""
        machine, factor, ways, costs, late = self
        return _Plan(machine.copy(), factor.copy(), ways, costs.copy(), late.copy())


class KeySearch:
    """Search for machines and keys of the requests of one workload.

    Parameters
    ----------
    workload : Workload
        The requests, with their batch time.
    seed : int
        Seed of the annealing.
    recomputes : bool, default False
        Whether a request that leaves the cache processes prompt and tokens again.
    limits : Limits or None, default None
        Limits of each request. With them the cost is the number of late requests; None is total
        latency.

    Attributes
    ----------
    cost : float
        Total latency of the best schedule so far, or its late requests; infinite before one.
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
        """Try the assignments and rules that are left, in time; the first is always tried."""
        for _ in self._untried:
            if should_stop():
                break
        if self._limits is not None:
            self._reject()

    def anneal(self, should_stop: Callable[[], bool]) -> Iterator[float]:
        """Yield better and better costs; end after `FRUITLESS` cycles without any."""
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
        """Return the best schedule of all requests so far, where there are no limits."""
        found = self.on_time()
        assert found is not None
        return found[0]

    def on_time(self) -> tuple[SecondsSchedule | FleetSchedule, IntArray] | None:
        """Return a schedule of the requests on time alone, and their positions; None for none."""
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
        """Yield keys and rules to open with."""
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
        """Try all rules with the first assignment, those that were best with the others."""
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
        """Serve nobody who is late, as long as that leaves time for others."""
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
        """Return a changed copy of a plan, and the machines to serve again."""
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
        """Put the costs of some machines into a plan; return its own, infinite if above allowed."""
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
        """Return a schedule of requests of a machine that are on time, and these requests."""
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
            # Without those that were late others may be late instead.
            own = own[is_on_time]
        return None, own
