"""Schedules from proofs in the papers, which are computed by formulas for instances of any size.

They are feasible. So a policy's total latency divided by that of such a schedule is a lower bound
on the policy's ratio to the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from instances.errors import InvalidValueError
from instances.problem.instance import Instance
from instances.problem.schedule import Schedule


def class_batches(instance: Instance) -> Schedule:
    """Schedule requests in batches of equal requests, one batch after another without overlap.

    With prompt length s and output length o, batches are in increasing order of the volume of a
    request, s o + o (o + 1) / 2. A batch runs for o rounds and has floor(M / (s + o)) requests, or
    fewer if fewer are left. The proofs of [W25] Theorems 1 and EC.1 compare with this schedule. So
    does that of [J25] Theorem 4.3, where all requests are equal.

    Raises
    ------
    InvalidValueError
        A request arrives after time 0, or there are several replicas.
    """
    instance.require_one_replica()
    for request in instance:
        if request.arrival_time:
            owner = f"request {request.id!r}"
            raise InvalidValueError(owner, "arrival_time", request.arrival_time, "is not 0")
    classes: dict[tuple[int, int, int], list[int]] = {}
    for position, request in enumerate(instance):
        label = (request.volume, request.prompt_length, request.output_length)
        classes.setdefault(label, []).append(position)
    starts = np.zeros(len(instance), dtype=np.int64)
    now = 0
    for (_, prompt, output), members in sorted(classes.items()):
        width = instance.memory_limit // (prompt + output)
        batches = -(-len(members) // width)
        starts[members] = now + output * (np.arange(len(members)) // width)
        now += batches * output
    return Schedule(instance, starts)


def one_long_and_units(instance: Instance) -> Schedule:
    """Return an optimal schedule of one long request at time 0 and later equal short ones (o = 1).

    All short requests arrive together, as `sqrt-n-adversary` releases them ([J25] Theorem 4.1). The
    short requests are interchangeable and take one round each. So for a fixed start t of the long
    request it is optimal to start, in every round from their arrival on, as many short requests as
    fit. It is enough to try every t, up to the first t at which the long request delays no short
    one. The result is exact and takes about M log M steps for memory M.

    Raises
    ------
    InvalidValueError
        The instance has other requests, or has several replicas.
    """
    instance.require_one_replica()
    shorts = [k for k, request in enumerate(instance) if request.output_length == 1]
    longs = [k for k, request in enumerate(instance) if request.output_length > 1]
    kinds = {(instance[k].arrival_time, instance[k].prompt_length) for k in shorts}
    if len(longs) != 1 or len(kinds) != 1 or instance[longs[0]].arrival_time != 0:
        raise InvalidValueError(
            "instance", "requests", len(instance), "are not one long one at 0 and equal short ones"
        )
    long, prompt = instance[longs[0]], instance[shorts[0]].prompt_length
    arrival = instance[shorts[0]].arrival_time

    def rounds(long_starts: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Simulate one schedule for each start of the long request; yield one tuple per round.

        ``long_starts`` has these starts, which are alternatives. A tuple has the round, the
        positions in ``long_starts`` of schedules in which short requests are left to start, and the
        number of short requests that start in this round in each of these schedules.
        """
        active = np.arange(len(long_starts))
        left = np.full(len(long_starts), len(shorts))
        round_index = arrival
        while len(active):
            round_index += 1
            age = round_index - long_starts[active]
            held = np.where((age >= 1) & (age <= long.output_length), long.prompt_length + age, 0)
            started = np.minimum(left, (instance.memory_limit - held) // (prompt + 1))
            yield round_index, active, started
            left = left - started
            active, left = active[left > 0], left[left > 0]

    # The short requests alone take ``alone`` rounds. If the long request starts after these rounds,
    # it delays no short request. So a start later than arrival + alone is never better.
    alone = -(-len(shorts) // (instance.memory_limit // (prompt + 1)))
    candidates = np.arange(arrival + alone + 1, dtype=np.int64)
    costs = candidates + long.output_length
    for round_index, active, started in rounds(candidates):
        costs[active] += started * (round_index - arrival)
    best = int(np.argmin(costs))
    starts = np.full(len(instance), best, dtype=np.int64)
    found = [(round_index - 1, int(one[0])) for round_index, _, one in rounds(np.array([best]))]
    begins, counts = np.transpose(found)
    starts[shorts] = np.repeat(begins, counts)
    return Schedule(instance, starts)
