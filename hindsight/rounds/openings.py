"""Compute first bounds in rounds: list schedules, and lower bounds without an LP solver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import MEMORY_PRICES
from hindsight.prices.horizon import proved_horizon
from hindsight.prices.volume import fill_by_volume, makespan_lower_bound, mean_busy_time_bound
from hindsight.schedules import lists
from hindsight.schedules.cycles import RuinAndRecreate
from instances.arrays import IntArray


def open_latency(interval: Interval, start: Any) -> None:
    """Find first schedules and lower bounds on total latency, with or without preemption.

    The mean-busy-time bound (`hindsight.prices.volume`) also holds with preemption. Let request i
    produce its k-th token in round r_k, in which it holds s_i + k tokens. Its volume is v_i = sum_k
    (s_i + k), and its mean round is sum_k (s_i + k) r_k / v_i. Let its rest be its completion C_i
    minus its mean round. Add a lower bound on the sum of all mean rounds and a lower bound on the
    sum of all rests, and subtract the sum of all arrival times: this is the bound on total latency.

    The lower bound on the sum of mean rounds is the least such sum if each round may serve any M
    units of the volumes of requests that have arrived, with M the memory limit. A preemptive
    schedule is such a service, because all requests together hold at most M in each round. The
    lower bound on the sum of rests is this sum without preemption, where r_k = C_i - o_i + k. With
    preemption, r_k is at most this number, because request i runs in o_i - k further rounds up to
    C_i. So the mean round is not later, and the rest is not smaller.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve, to be set here. It has no schedule yet.
    start : Schedule, PreemptiveSchedule, FleetSchedule or None
        A feasible schedule given by the user.
    """
    source, below = interval.source, interval.problem.below
    schedules = _list_schedules(interval)
    interval.offer(next(schedules) if start is None else start)
    filling = fill_by_volume(below)
    interval.prove(below.total_output_length, "output lengths")
    interval.prove(mean_busy_time_bound(below, filling), "mean busy times")
    for schedule in schedules:
        if interval.is_proved:
            break
        interval.offer(schedule)
    if interval.problem.preemption == "keep":
        return
    stop = interval.clock.must_stop
    bound, interval.horizon = proved_horizon(source, interval.schedule, filling, stop)
    interval.prove(bound.bound, MEMORY_PRICES, proof=bound.prices)


def _list_schedules(interval: Interval, orders: Iterable[IntArray] = ()) -> Iterator[Any]:
    """Yield a quick schedule if there is no schedule yet, and then a list schedule for each order.

    The quick one is that of `first_schedule`. The time limit does not stop it, but an interruption
    by the user does. For each of ``orders`` and of `lists.list_orders`, the requests are placed in
    this order, each at the first start that fits on any machine. Once the time is up, only a
    schedule that takes just a moment is still completed.
    """
    source, clock = interval.source, interval.clock
    if interval.schedule is None:
        yield lists.first_schedule(source, lambda: clock.must_stop() and clock.is_interrupted)
    for order in chain(orders, lists.list_orders(source).values()):
        placing = RuinAndRecreate(source)
        if not placing.place(order, clock.must_stop):
            return
        yield placing.schedule


def open_makespan(interval: Interval, start: Any) -> None:
    """Find first schedules and a lower bound if the goal is the least makespan.

    ``start`` is a feasible schedule given by the user, or None.
    """
    source, bound = interval.source, makespan_lower_bound(interval.problem.below)
    large = [-source.output_lengths, -source.peak_memories]
    schedules = _list_schedules(interval, [np.argsort(key, kind="stable") for key in large])
    for schedule in schedules if start is None else chain([start], schedules):
        interval.offer(schedule)
        if interval.upper_bound == bound:
            break
    interval.prove(bound, "last completion")
