"""Schedules in seconds, improved by simulated annealing of sort keys and machines of the requests.

Each request has a machine and a sort key. `hindsight.schedules.serving` turns the keys of the
requests on a machine into a schedule, by a rule for each machine. The first schedule is the best of
several rules. Simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) then changes the key of a
request, moves it to another machine, or changes a limit of the rule of a machine. Only the changed
machines are simulated again. If the goal is requests on time, a request may be rejected, which
leaves machine time to others.

Deterministic: the schedule after k moves depends only on the arguments and the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.fleet_schedule import by_replica
from instances.service_level import Limits

from .machines import assigned, machine_of
from .serving import Rule, Run, serve

TOKEN_CAPS = (math.inf, 6.0, 3.0, 2.0, 0.5)
"""Values of `Rule.token_cap` if the goal is total latency: largest number of tokens in a round with
several prompts. Unit: least number of tokens with which a round takes twice as long as with one."""

BEND = 0.99
"""Prompts are cut (`Rule.cuts`) if a round of half this unit takes less than `BEND` * (mean of the
rounds of one token and of the unit). On a straight line cuts do not help: if the round of the last
chunk processes the whole prompt instead, the rounds before it end earlier, and it does not end
later."""

FITS = ((0, 0.0), (3, 0.1), (5, 0.3), (10, 0.0))
"""Pairs of values of `Rule.skips` (requests passed over for lack of memory) and of `Rule.fill`, for
first schedules."""

EXPONENTS, TOKENS = (0.25, 0.0, 1.0, -0.3, 0.5), (1.0, 4.0, 16.0)
"""`EXPONENTS`: first schedules with preemption have the initial sort keys (machine seconds that a
request needs) ** exponent. `TOKENS`: values of `Rule.token` in these schedules."""

SHAPES = ((1.0, 1.0), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 1.0))
"""With deadlines: pairs of values of `Rule.charge` and -`Rule.left`, the exponents in the rank."""

DUE_CAPS = math.inf, 3.0, 1.0
"""With deadlines: values of `Rule.token_cap`, in the unit of `TOKEN_CAPS`."""

NOBODY = -1
"""Machine number of a rejected request, which no machine serves."""

FRUITLESS = 5
"""The search ends after more than this many consecutive annealings without a better schedule."""

FIRST_CYCLE, FIRST_WORK = (500, 3_000), 200_000
"""Number of moves of the first annealing of n requests: `FIRST_WORK` / n, within the bounds
`FIRST_CYCLE`. The k-th annealing has k times as many."""

HOT, COOLING = 0.15, 0.05
"""The k-th annealing begins at temperature `HOT` / k * (mean latency) * sqrt(number of machines),
or at 0 if requests have deadlines. `COOLING`: its last temperature divided by its first."""

REACH = 0.6
"""A move multiplies a sort key by exp(x). `REACH`: standard deviation of the normal random x."""

KEY_SHARE = 0.4
"""If there are several machines: share of moves that change the sort key of a request or the rule
of a machine. Other moves change the machine of a request."""

RULE_SHARE, LIMITS = 0.2, ("token_cap", "stall")
"""`RULE_SHARE`: share of these moves that change one of `LIMITS`, two fields of `Rule`."""

LATE_SHARE, REJECTED = 0.5, 0.2
"""With deadlines: probability that a move draws a late request, and that it rejects its request."""

SLICE_WORK = 20_000
"""(Number of requests) * (number of annealing moves) between two calls of the stop callback."""

_Way = tuple[FloatArray, Rule]
"""Initial sort key of each request, and the rule that turns sort keys into a schedule."""


class _Plan(NamedTuple):
    """A solution of the search: machine and sort key of each request, and rule of each machine.

    Attributes
    ----------
    machine : int64 array, shape (n,)
        Machine of each request, or `NOBODY` if it is rejected.
    factor : float64 array, shape (n,)
        Factor by which the sort key of each request differs from the initial one. Moves of the
        annealing change these factors.
    ways : list of _Way, length K
        Initial sort keys and rule of each of the K machines.
    costs : float64 array, shape (K,)
        Total latency on each machine in seconds, or number of late requests on it.
    late : int64 array, shape (n,)
        1 for requests that are late or rejected, else 0.
    """

    machine: IntArray
    factor: FloatArray
    ways: list[_Way]
    costs: FloatArray
    late: IntArray

    @property
    def cost(self) -> float:
        """Return the total latency in seconds, or the number of late and rejected requests."""
        return float(self.costs.sum() + np.count_nonzero(self.machine == NOBODY))

    def copy(self) -> _Plan:
        """Return a copy of this plan, whose arrays a move of the annealing may change in place."""
        return _Plan._make([one.copy() for one in self])


class KeySearch:
    """Search for a schedule in seconds: a machine and a sort key for each request of a workload.

    A rule (`hindsight.schedules.serving.Rule`) turns the sort keys on a machine into its schedule.

    Parameters
    ----------
    workload : Workload
        The requests, with their batch time.
    seed : int
        Seed of the simulated annealing.
    recomputes : bool, default False
        Whether a preempted request recomputes its prompt and tokens when it resumes.
    limits : Limits or None, default None
        Latency limits of each request. With limits, the cost of a schedule is the number of late
        requests. With None, it is the total latency.

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
        self._rng, self._recomputes = np.random.default_rng(seed), recomputes
        self._machine = one = machine_of(workload, limits, recomputes=recomputes)
        n, (token, held) = len(workload), one.charges
        self._volume = one.output * (one.held + (one.output + 1) / 2)
        self._charge = token * (one.prompt + one.output - 1) + held * self._volume
        self._space = *np.empty((6, n), dtype=np.int64), *np.empty((3, n))
        # Use at most n machines (n is the number of requests): further ones would stay empty.
        self._machines, self._untried = min(workload.replicas, n), self._open()
        self._best: _Plan
        self.cost, self.cycle = math.inf, 0

    def open(self, should_stop: Callable[[], bool]) -> None:
        """Try the first schedules, one for each rule.

        Stop once ``should_stop`` returns True, but try at least one rule. A further call continues
        with the rules that are not tried yet. With deadlines, finally reject the late requests of
        the best schedule.
        """
        for _ in self._untried:
            if should_stop():
                break
        if self._limits is not None:
            self._reject()

    def anneal(self, should_stop: Callable[[], bool]) -> Iterator[float]:
        """Run annealings one after another; yield the cost of each better schedule.

        Each annealing begins with the best plan (machines, sort keys and rules) so far. Stop once
        ``should_stop`` returns True, or after more than `FRUITLESS` consecutive annealings without
        a better schedule. Check for both, and for a better schedule to report, about every
        `SLICE_WORK` / n moves, where n is the number of requests.
        """
        n, rng, known, gained = len(self._charge), self._rng, self.cost, self.cycle - 1
        first = sorted((*FIRST_CYCLE, FIRST_WORK // n))[1]
        unit = HOT * math.sqrt(self._machines) / n if self._limits is None else 0.0
        while True:
            plan, cost, moves = self._best, self._best.cost, first * (1 + self.cycle)
            hot = unit * cost / (1 + self.cycle)
            for move in range(moves):
                if move % max(1, SLICE_WORK // n) == 0:
                    if self.cost < known:
                        known, gained = self.cost, self.cycle
                        yield known
                    if self.cycle - gained > FRUITLESS or should_stop():
                        return
                allowed = cost + hot * COOLING ** (move / moves) * rng.exponential()
                trial, touched = self._proposal(plan)
                trial_cost = self._serve_again(trial, touched, allowed) if touched else math.inf
                if trial_cost <= allowed:
                    plan, cost = trial, trial_cost
                    if cost < self.cost:
                        self._best, self.cost = plan, cost
            self.cycle += 1

    def schedule(self) -> SecondsSchedule | FleetSchedule:
        """Return the best schedule of all requests so far, if there are no latency limits."""
        found = self.on_time()
        assert found is not None
        return found[0]

    def on_time(self) -> tuple[SecondsSchedule | FleetSchedule, IntArray] | None:
        """Return the best schedule so far, with late requests removed, and the requests in it.

        The requests are given by their positions in the workload. Return None if all are late.
        """
        machine = np.where(self._best.late > 0, NOBODY, self._best.machine)
        parts: list[Any] = [None] * self._workload.replicas
        for k, own in enumerate(by_replica(machine, self._machines)):
            parts[k], served = self._part(k, own)
            machine[np.setdiff1d(own, served)] = NOBODY
        served = np.flatnonzero(machine != NOBODY)
        if not len(served):
            return None
        if self._workload.replicas == 1:
            return parts[0], served
        return FleetSchedule(self._workload.of(served), machine[served], parts), served

    def _ways(self) -> Iterator[_Way]:
        """Yield pairs of initial sort keys and a rule, which are tried for the first schedules.

        With deadlines they combine `DUE_CAPS` and `SHAPES`. Otherwise they combine
        `EXPONENTS`, `TOKENS`, `FITS` and `TOKEN_CAPS`.
        """
        one, charge, seconds = self._machine, self._charge, self._machine.seconds
        n, most, again = len(charge), len(seconds) - 1, self._recomputes
        unit = min(int(np.searchsorted(seconds, 2 * seconds[1])), most)
        bent = bool(2 * seconds[(1 + unit) // 2] < BEND * (seconds[1] + seconds[unit]))
        # The largest useful value of `Rule.stall`.
        stall = n * max(0.0, float((seconds[one.prompt] - seconds[1] + one.d2 * one.stored).max()))
        if self._limits is not None:
            for cap, power, (share, left) in product(DUE_CAPS, (0, 1), SHAPES):
                rule = Rule(share, -left, skips=n, token_cap=cap * unit, cuts=bent)
                yield charge**power, rule._replace(recomputes=again, stall=stall)
            return
        caps = dict.fromkeys(float(min(cap * unit, most)) for cap in TOKEN_CAPS)
        lengths = one.output + one.prompt / (one.prompt.max() + 1.0)
        kinds = list(product((charge**power for power in EXPONENTS), (1.0,), FITS, TOKENS))
        kinds += product((charge, self._volume, lengths), (0.0,), FITS, TOKENS[:1])
        for (key, share, (skips, fill), token), cap in product(kinds, caps):
            rule = Rule(share, skips=skips, token_cap=cap, cuts=bent * share > 0, fill=share * fill)
            yield key, rule._replace(reserves=not share, recomputes=again, token=token, stall=stall)

    def _open(self) -> Iterator[None]:
        """Try each pair of `_ways` (initial sort keys and a rule) on all machines.

        Each machine keeps the pair that gives it the lowest cost. The best plan consists of these
        pairs. Yield after each pair that is tried.
        """
        factor, late = np.ones(len(self._charge)), np.zeros(len(self._charge), dtype=np.int64)
        machine = assigned(self._machine.arrival, self._charge, self._machines)
        parts, costs = by_replica(machine, self._machines), np.full(self._machines, math.inf)
        ways: list[Any] = [None] * self._machines
        for way in self._ways():
            trial = np.zeros_like(late)
            run = self._run(way, factor, trial)
            for k, own in enumerate(parts):
                cost = serve(run, own, math.inf)[0]
                if cost < costs[k]:
                    ways[k], costs[k], late[own] = way, cost, trial[own]
            if costs.sum() < self.cost:
                self._best = _Plan(machine, factor, [*ways], costs.copy(), late.copy())
                self.cost = self._best.cost
            yield

    def _reject(self) -> None:
        """Reject all late requests of the best plan, so that more served requests are on time.

        No machine serves a rejected request. Repeat as long as the number of late and rejected
        requests falls.
        """
        while True:
            best = self._best
            plan = best.copy()._replace(machine=np.where(best.late > 0, NOBODY, best.machine))
            cost = self._serve_again(plan, range(self._machines), math.inf)
            if cost <= self.cost:
                self._best = plan
            if cost >= self.cost:
                return
            self.cost = cost

    def _proposal(self, plan: _Plan) -> tuple[_Plan, list[int]]:
        """Return a copy of a plan changed by one random move, and the machines that it changes.

        The machines must be simulated again. The list is empty if the move changes nothing.
        """
        rng, trial = self._rng, plan.copy()
        i, kind = int(rng.integers(len(plan.machine))), rng.random()
        there = int(rng.integers(self._machines))
        if self._limits is not None and plan.late.any() and rng.random() < LATE_SHARE:
            i = int(rng.choice(np.flatnonzero(plan.late)))
        here, fresh = int(plan.machine[i]), math.exp(rng.normal(0.0, REACH))
        if here == NOBODY:
            trial.factor[i] = fresh
        elif self._limits is not None and rng.random() < REJECTED:
            there = NOBODY
        elif self._machines == 1 or kind < KEY_SHARE:
            if rng.random() < RULE_SHARE:
                (key, rule), name = trial.ways[here], LIMITS[rng.integers(len(LIMITS))]
                trial.ways[here] = key, rule._replace(**{name: fresh * getattr(rule, name)})
            else:
                trial.factor[i] *= fresh
            return trial, [here]
        trial.machine[i] = there
        return trial, [k for k in (here, there) if k != NOBODY and here != there]

    def _serve_again(self, plan: _Plan, touched: Sequence[int], allowed: float) -> float:
        """Simulate the machines ``touched``, which a move changed, and set their costs in the plan.

        Return the cost of the plan, or infinity if the cost is certain to exceed ``allowed``.
        """
        plan.costs[list(touched)] = 0.0
        if self._limits is not None:
            plan.late[plan.machine == NOBODY] = 1
        cost = plan.cost
        for k in touched:
            own = np.flatnonzero(plan.machine == k)
            run = self._run(plan.ways[k], plan.factor, plan.late)
            plan.costs[k] = serve(run, own, allowed - cost)[0]
            cost += float(plan.costs[k])
        return cost

    def _run(self, way: _Way, factor: FloatArray, late: IntArray) -> Run:
        """Return the input of a simulation (`serve`) that computes the cost of a schedule.

        Its ``table`` is empty, so the simulation does not write the schedule itself. ``way`` has
        the initial sort keys and the rule, ``factor`` the factors on these keys. The simulation
        marks the late requests in ``late``.
        """
        (key, rule), table = way, np.empty((0, len(COLUMNS)), np.int64)
        return Run._make([self._machine, rule, key * factor, *self._space, late, table])

    def _part(self, k: int, own: IntArray) -> tuple[SecondsSchedule | None, IntArray]:
        """Return a schedule of machine k without late requests, and the positions of its requests.

        ``own`` has the positions of all requests on machine k. The schedule is None if all of them
        are late.
        """
        best, late = self._best, self._best.late.copy()
        run = self._run(best.ways[k], best.factor, late)
        while len(own):
            table = np.empty((serve(run, own, math.inf)[1], len(COLUMNS)), np.int64)
            serve(run._replace(table=table), own, math.inf)
            # Empty prompts count as one token in the simulation.
            prompts = self._workload.prompt_lengths[table[:, 0]]
            table[:, 5] = np.minimum(table[:, 5], prompts + table[:, 4])
            table[:, 0] = np.searchsorted(own, table[:, 0])
            schedule = SecondsSchedule(self._workload.alone(own), table)
            is_on_time = late[own] == 0
            if self._limits is not None:
                is_on_time &= schedule.keeps(self._limits.of(own))
            if is_on_time.all():
                return schedule, own
            # Simulate the machine again without the late requests. This changes the schedule, so
            # other requests may become late.
            own = own[is_on_time]
        return None, own
