"""Test cases for policies, each an instance with predictions: drawn, altered, made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from instances import Instance, MemoryRule, Request
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
"""Largest number of smaller instances that `smallest` tries for one failing instance."""

EXACT = ExactPredictions()
INTERVAL = IntervalPredictions(1, LONGEST_OUTPUT)
BUCKETS = BucketPredictions((3, 7, LONGEST_OUTPUT))


@dataclass(frozen=True)
class Case:
    """A test case: an instance, its requests sorted by arrival, a prediction model and a seed.

    The seed is that of the runs on the case.
    """

    instance: Instance
    predictions: PredictionModel = EXACT
    seed: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        """Return a key of the case. Cases with equal keys have the same run of a policy."""
        return self.instance.digest, repr(self.predictions), self.seed

    def with_requests(self, requests: Sequence[Request]) -> Case:
        """Return a copy of the case in which these requests replace those of the instance."""
        return replace(self, instance=self.instance.replaced(requests=requests))


_KINDS: tuple[tuple[PredictionModel, str, MemoryRule], ...] = (
    (EXACT, "", TOKENS),
    (EXACT, "arrivals", TOKENS),
    (INTERVAL, "arrivals", TOKENS),
    (EXACT, "tight", TOKENS),
    (BUCKETS, "arrivals tight", TOKENS),
    (EXACT, "ties", TOKENS),
    (INTERVAL, "ties", TOKENS),
    (NoisyPredictions(2), "arrivals", TOKENS),
    (EXACT, "arrivals", MemoryRule(4)),
    (BUCKETS, "", MemoryRule(4, "next")),
)
"""Kinds of cases: predictions, properties of the instance (words of `drawn_cases`), memory rule."""


def drawn_cases(count: int, seed: int) -> Iterator[Case]:
    """Draw ``count`` test cases, which go through `_KINDS` in turn and get more and more requests.

    A kind has properties. With "arrivals" requests arrive over time, with "tight" memory is just
    enough for each request alone, and with "ties" requests are equal.
    """
    for place in range(count):
        rng = np.random.default_rng([seed, place])
        predictions, drawn, rule = _KINDS[place % len(_KINDS)]
        n = 2 + place * (MOST_REQUESTS - 2) // max(count, 1)
        prompts = rng.integers(1, LONGEST_PROMPT + 1, n)
        outputs = rng.integers(1, LONGEST_OUTPUT + 1, n)
        if drawn == "ties":
            prompts[:] = prompts[0]
            outputs = outputs[[0] * n] if predictions is EXACT else outputs
        arrivals = np.zeros(n, np.int64)
        if "arrivals" in drawn:
            arrivals = np.sort(rng.integers(0, 3 * n, n))
        rows = zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True)
        requests = [Request(*row, f"r{index}") for index, row in enumerate(rows)]
        # ``needed`` is enough memory for each request alone, even with the longest output that its
        # prediction allows.
        longest = int(outputs.max()) if predictions is EXACT else LONGEST_OUTPUT
        needed = rule.held(int(prompts.max()) + longest)
        limit = needed if "tight" in drawn else int(needed * rng.uniform(1.2, 3))
        yield Case(Instance(requests, limit, memory_rule=rule), predictions, place)


def other_lengths(case: Case) -> Iterator[tuple[Case, set[int]]]:
    """Yield variants of a case with other output lengths that have the same predictions.

    With each variant, yield the positions of the requests whose output length differs.
    """
    if case.predictions not in (INTERVAL, BUCKETS):
        return
    rng, requests = np.random.default_rng([case.seed, 1]), case.instance.requests
    told = [case.predictions.predict(0, one.output_length, rng) for one in requests]
    outputs = np.array([one.output_length for one in requests])
    lowers, uppers = np.array([(one.lower, one.upper) for one in told]).T
    turned = lowers + uppers - outputs
    # Change only the first or only the last request, too. A policy can notice the change only when
    # this request ends, so more decisions are compared than if all are changed.
    alone = [
        np.where(np.arange(len(outputs)) == k, turned, outputs) for k in (0, -1 % len(outputs))
    ]
    for variant in (turned, rng.integers(lowers, uppers + 1), *alone):
        if changed := {*np.flatnonzero(variant != outputs).tolist()}:
            pairs = zip(requests, variant.tolist(), strict=True)
            yield case.with_requests([replace(a, output_length=b) for a, b in pairs]), changed


def other_futures(case: Case) -> Iterator[tuple[Case, int]]:
    """Yield pairs (variant of a case, round).

    In the variant, requests that arrive in this round or later are changed: they have other
    lengths, arrive later, or are missing.
    """
    requests = case.instance.requests
    times = sorted({one.arrival_time for one in requests} - {0})
    most = max(one.prompt_length for one in requests) + 1
    longest = max(one.output_length for one in requests) + 1
    for now in {times[0], times[len(times) // 2], times[-1]} if times else ():
        past = [one for one in requests if one.arrival_time < now]
        future = requests[len(past) :]
        later = [replace(one, arrival_time=one.arrival_time + 3) for one in future]
        turned = [
            replace(
                one,
                prompt_length=most - one.prompt_length,
                output_length=longest - one.output_length,
            )
            for one in future
        ]
        for variant in ([*past, *turned], [*past, *later], requests[:-1], past):
            if variant and variant != list(requests):
                yield case.with_requests(variant), now


def smallest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Remove requests from a failing case while the smaller case still fails. Return the result."""
    tries, first, size = MOST_TRIES, 0, max(1, len(case.instance) // 2)
    while size and tries:
        requests = case.instance.requests
        if first >= len(requests):
            first, size = 0, size // 2
        elif (fewer := [*requests[:first], *requests[first + size :]]) and fails(
            smaller := case.with_requests(fewer)
        ):
            case = smaller
        else:
            first += size
        tries -= 1
    return case
