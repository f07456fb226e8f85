"""Tiny instances for checks, and smaller versions of those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from instances import Instance, InvalidValueError
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH
from instances.problem.memory_rule import TOKENS

MOST_REQUESTS = 4
PROMPT_RANGES = ((1, 3), (0, 3), (1, 40))
"""Ranges of prompt lengths, in turn: a fault may need no prompts, or only long ones."""

LONGEST_OUTPUT, LATEST_ARRIVAL = 4, 4
LONG_OUTPUT, SHORT_OUTPUT = 6, 2
"""Most requests: of those first in `LONG_FIRST`, and of those after them."""

LONG_FIRST = ("a long one first", "long ones first")
"""Instance whose optimum waits for the short requests, which no list schedule does."""

SHORT = ("all at once", "arrivals", "equal requests", "tight memory", "an idle gap")
KINDS = SHORT + LONG_FIRST
"""Enough instances that each kind meets each range of prompts."""


def drawn_instances(number: int, seed: int) -> Iterator[Instance]:
    """Draw instances of every kind in turn, small ones first; each enumerates in milliseconds."""
    for place in range(number):
        rng = np.random.default_rng([seed, place])
        kind = KINDS[place % len(KINDS)]
        n = 1 + place * MOST_REQUESTS // number
        shortest, longest = PROMPT_RANGES[place % len(PROMPT_RANGES)]
        prompts = rng.integers(shortest, longest + 1, n)
        outputs = rng.integers(1, LONGEST_OUTPUT + 1, n)
        arrivals = np.zeros(n, dtype=np.int64)
        if kind == "equal requests":
            prompts[:], outputs[:] = prompts[0], outputs[0]
        if kind in ("arrivals", "tight memory"):
            # In random order: positions in an instance need not follow time.
            arrivals = rng.integers(0, LATEST_ARRIVAL + 1, n)
        if kind == "an idle gap":
            arrivals[-1] = 30
        if kind in LONG_FIRST:
            first = 1 if kind == LONG_FIRST[0] else max(1, n // 2)
            prompts += LONG_OUTPUT  # beside a long one nothing fits
            outputs[:first] = rng.integers(LONGEST_OUTPUT, LONG_OUTPUT + 1)
            outputs[first:] = rng.integers(1, SHORT_OUTPUT + 1, n - first)
            arrivals[first:] = 1
        least = int((prompts + outputs).max())
        is_tight = kind in ("tight memory", *LONG_FIRST)
        spare = 0 if is_tight else int(rng.integers(0, least + 1))
        admitting = {} if prompts.all() else {ALLOW_ZERO_PROMPT_LENGTH: True}
        yield Instance.from_arrays(
            prompts, outputs, arrivals, memory_limit=least + spare, metadata=admitting
        )


def smallest(instance: Instance, fails: Callable[[Instance], bool]) -> Instance:
    """Shrink a failing instance: drop requests and lower numbers as long as it fails."""
    smaller = True
    while smaller:
        smaller = False
        for other in _smaller(instance):
            if fails(other):
                instance, smaller = other, True
                break
    return instance


def _smaller(instance: Instance) -> Iterator[Instance]:
    requests = list(instance.requests)
    limit, details = instance.memory_limit, instance.metadata
    # A prompt of 0 is tried where the instance allows it, like an arrival time of 0.
    least = {"arrival_time": 0, "prompt_length": int(not details.get(ALLOW_ZERO_PROMPT_LENGTH))}
    variants = [(requests[:k] + requests[k + 1 :], limit) for k in range(len(requests))]
    for k, one in enumerate(requests):
        for name in ("output_length", "prompt_length", "arrival_time", "weight"):
            # Halve late arrivals first, then lower them one by one.
            value = getattr(one, name)
            for less in {value // 2, value - 1} if name == "arrival_time" else {value - 1}:
                if less < value and less >= least.get(name, 1):
                    changed = replace(one, **{name: less})
                    variants.append(([*requests[:k], changed, *requests[k + 1 :]], limit))
    variants.append((requests, limit - 1))
    for rows, memory_limit in variants:
        try:
            if rows:
                yield Instance(
                    rows, memory_limit, metadata=details, memory_rule=instance.memory_rule
                )
        except InvalidValueError:
            continue


def instance_lines(instance: Instance) -> str:
    """Return Python code that creates the instance."""
    rows = ", ".join(
        f"({one.arrival_time}, {one.prompt_length}, {one.output_length}, {one.id!r}"
        + (f", {one.weight})" if instance.is_weighted else ")")
        for one in instance.requests
    )
    rule = instance.memory_rule
    counted = "" if rule == TOKENS else f", memory_rule={rule!r}"
    if not instance.prompt_lengths.all():
        counted += f", metadata={{{ALLOW_ZERO_PROMPT_LENGTH!r}: True}}"
    return (
        f"rows = [{rows}]  # arrival, prompt, output, id{', weight' * instance.is_weighted}\n"
        f"instance = Instance([Request(*row) for row in rows],"
        f" memory_limit={instance.memory_limit}{counted})"
    )
