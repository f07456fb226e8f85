"""Instances to try a policy on, with what it is told; drawn, altered, and made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from instances import Instance, InvalidValueError, MemoryRule, Request
from instances.problem.memory_rule import TOKENS
from online.policy_interface.predictions import (
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
    PredictionModel,
)

LONGEST_PROMPT = 8
LONGEST_OUTPUT = 12
MOST_REQUESTS = 30
MOST_TRIES = 300
"""Smaller instances that are tried before the smallest so far is taken."""

EXACT = ExactPredictions()
INTERVAL = IntervalPredictions(1, LONGEST_OUTPUT)
BUCKETS = BucketPredictions((3, 7, LONGEST_OUTPUT))


@dataclass(frozen=True)
class Case:
    """An instance in order of arrival, with the predictions and the seed of a run on it."""

    instance: Instance
    predictions: PredictionModel = EXACT
    seed: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        """Return a key, equal for equal runs."""
        return self.instance.digest, repr(self.predictions), self.seed

    def with_requests(self, requests: Sequence[Request]) -> Case | None:
        """The same with other requests; None where they make no instance."""
        given = self.instance
        try:
            changed = Instance(requests, given.memory_limit, memory_rule=given.memory_rule)
        except InvalidValueError:
            return None
        return replace(self, instance=changed)


class _Kind(NamedTuple):
    predictions: PredictionModel = EXACT
    arrivals: bool = False
    tight: bool = False
    ties: bool = False
    memory_rule: MemoryRule = TOKENS


_KINDS = (
    _Kind(),
    _Kind(arrivals=True),
    _Kind(INTERVAL, arrivals=True),
    _Kind(tight=True),
    _Kind(BUCKETS, arrivals=True, tight=True),
    _Kind(ties=True),
    _Kind(INTERVAL, ties=True),
    _Kind(NoisyPredictions(2), arrivals=True),
    _Kind(arrivals=True, memory_rule=MemoryRule(4)),
    _Kind(BUCKETS, memory_rule=MemoryRule(4, "next")),
)
"""Told exact lengths or less, all at once or not, with little memory, equal lengths, or blocks."""


def drawn_cases(count: int, seed: int) -> Iterator[Case]:
    """Draw cases of every kind in turn, the small ones first."""
    for place in range(count):
        rng = np.random.default_rng([seed, place])
        kind = _KINDS[place % len(_KINDS)]
        n = 2 + place * (MOST_REQUESTS - 2) // max(count, 1)
        prompts = rng.integers(1, LONGEST_PROMPT + 1, n)
        outputs = rng.integers(1, LONGEST_OUTPUT + 1, n)
        if kind.ties:
            prompts[:] = prompts[0]
        if kind.ties and kind.predictions is EXACT:
            outputs[:] = outputs[0]
        arrivals = np.zeros(n, dtype=np.int64)
        if kind.arrivals:
            arrivals = np.sort(rng.integers(0, 3 * n, n))
        rows = zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True)
        requests = [Request(*row, f"r{index}") for index, row in enumerate(rows)]
        rule = kind.memory_rule
        # Whatever lengths the predictions allow, each request fits alone.
        longest = int(outputs.max()) if kind.predictions is EXACT else LONGEST_OUTPUT
        needed = rule.held(int(prompts.max()) + longest)
        limit = needed if kind.tight else int(needed * rng.uniform(1.2, 3))
        yield Case(Instance(requests, limit, memory_rule=rule), kind.predictions, place)


def given_cases(instances: Sequence[Instance]) -> Iterator[Case]:
    """Every instance twice: told exact lengths, and only that none is longer than the longest."""
    for place, instance in enumerate(instances):
        order = np.argsort(instance.arrival_times, kind="stable").tolist()
        case = Case(instance, seed=place).with_requests([instance[k] for k in order])
        if case is None:
            # Such as one with empty prompts, which is accepted only where it is asked for.
            yield Case(instance, seed=place)
            continue
        yield case
        longest = int(instance.output_lengths.max())
        yield replace(case, predictions=IntervalPredictions(1, longest))


def other_lengths(case: Case) -> Iterator[tuple[Case, set[int]]]:
    """Give other output lengths behind the same predictions, and say whose they are."""
    if isinstance(case.predictions, IntervalPredictions):
        ends = [0, case.predictions.upper]
        least = case.predictions.lower
    elif isinstance(case.predictions, BucketPredictions):
        ends = [0, *case.predictions.upper_ends]
        least = 1
    else:
        return
    rng = np.random.default_rng([case.seed, 1])
    requests = case.instance.requests
    turned, drawn = [], []
    for one in requests:
        low, high = next(
            (max(low + 1, least), high) for low, high in pairwise(ends) if one.output_length <= high
        )
        turned.append(replace(one, output_length=low + high - one.output_length))
        drawn.append(replace(one, output_length=int(rng.integers(low, high + 1))))
    variants = [turned, drawn]
    # One alone leaves more rounds until it shows.
    variants += [[*requests[:k], turned[k], *requests[k + 1 :]] for k in {0, len(requests) - 1}]
    for variant in variants:
        changed = {k for k, one in enumerate(variant) if one != requests[k]}
        altered = case.with_requests(variant)
        if changed and altered is not None:
            yield altered, changed


def other_futures(case: Case) -> Iterator[tuple[Case, int]]:
    """Give other requests from some round on, and say from which."""
    requests = case.instance.requests
    times = sorted({one.arrival_time for one in requests} - {0})
    for now in {times[0], times[len(times) // 2], times[-1]} if times else ():
        most = max(one.prompt_length for one in requests)
        longest = max(one.output_length for one in requests)
        for shift, turned in ((0, True), (3, False)):
            future = [
                replace(
                    one,
                    arrival_time=one.arrival_time + shift,
                    prompt_length=most + 1 - one.prompt_length if turned else one.prompt_length,
                    output_length=longest + 1 - one.output_length if turned else one.output_length,
                )
                for one in requests
                if one.arrival_time >= now
            ]
            past = [one for one in requests if one.arrival_time < now]
            altered = case.with_requests([*past, *future])
            if altered is not None and altered.instance != case.instance:
                yield altered, now
        # Nor how many there will be, or whether any.
        for fewer in (requests[:-1], past):
            altered = case.with_requests(fewer) if fewer else None
            if altered is not None:
                yield altered, now


def other_order(case: Case) -> Case:
    """Return the case with simultaneous arrivals listed in reverse order."""
    backwards = case.instance.requests[::-1]
    requests = sorted(backwards, key=lambda one: one.arrival_time)
    altered = case.with_requests(requests)
    assert altered is not None
    return altered


def smallest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Shrink a failing case: leave out requests as long as it still fails."""
    tries = 0
    size = max(1, len(case.instance) // 2)
    while size:
        first = 0
        while first < len(case.instance) and len(case.instance) > 1:
            requests = case.instance.requests
            fewer = case.with_requests([*requests[:first], *requests[first + size :]])
            tries += 1
            if tries > MOST_TRIES:
                return case
            if fewer is not None and len(fewer.instance) and fails(fewer):
                case = fewer
            else:
                first += size
        size //= 2
    return case
