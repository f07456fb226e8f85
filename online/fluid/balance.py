"""The fluid equilibrium of [A25] Section 3, and the condition under which one exists.

A prompt with prefill length l and decode length l' runs l' + 1 iterations. These are its stages
s = 0 .. l', and at stage s it holds l + s tokens. `online.simulate` does the same with
``prefill_rounds=1``. An iteration takes d0 + d1 * (tokens of the batch) seconds, as in
`instances.batch_time.models.IterationTime`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from instances import InvalidTypeError, InvalidValueError
from instances.validation import (
    LARGEST_INTEGER,
    LARGEST_TOKEN_COUNT,
    as_integer,
    as_number,
    check_ranges,
    ranged,
)


@dataclass(frozen=True, slots=True)
class PromptType:
    """Type of prompts: equal lengths, arrivals in a Poisson process ([A25] Section 2.2).

    Parameters
    ----------
    arrival_rate : float
        lambda_j, prompts of this type j that arrive per second, > 0.
    prefill_length : int
        l_j, prompt tokens, >= 1.
    decode_length : int
        l'_j, output tokens, >= 1.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A field out of its range.
    """

    # The maximum of ``arrival_rate`` ensures that rate x memory of a prompt, summed over all types,
    # is within the range of floats.
    arrival_rate: float = ranged(above=0, maximum=LARGEST_INTEGER)
    prefill_length: int = ranged(minimum=1, maximum=LARGEST_TOKEN_COUNT)
    decode_length: int = ranged(minimum=1, maximum=LARGEST_TOKEN_COUNT)

    def __post_init__(self) -> None:
        check_ranges(self, "prompt type")

    @property
    def stages(self) -> int:
        """Iterations in which a prompt is in the batch: one for its prefill and l' decodes.

        l' is the decode length.
        """
        return self.decode_length + 1

    @property
    def footprint(self) -> int:
        """S_j = (l' + 1)(l + l'/2), tokens that a prompt holds, summed over its iterations.

        l is the prefill length, l' the decode length. The prompt holds l + s tokens in iteration
        s = 0 .. l'.
        """
        return self.stages * self.prefill_length + self.stages * self.decode_length // 2


@dataclass(frozen=True)
class Equilibrium:
    """Steady state of the fluid model: arrivals equal completions ([A25] Equations (4)-(10)).

    Attributes
    ----------
    load : float
        d1 W < 1. An iteration with X tokens takes d0 + d1 X seconds, and the load is the share of
        d1 X in this time. W = sum_j lambda_j S_j (`token_load`): type j has lambda_j prompts per
        second, and a prompt holds S_j tokens summed over its iterations.
    memory : float
        M*, tokens that all prompts in service hold ([A25] Equations (5), (8)).
    iteration_time : float
        DT* = d0 + d1 M*, seconds of an iteration ([A25] Equation (9)).
    throughput : float
        Thr* = sum_j lambda_j l'_j, decode tokens per second ([A25] Equations (6), (10)).
    prompts : tuple[float, ...]
        n*_j, number of prompts of each type j in service, at all stages together ([A25] Equation
        (7)).
    """

    load: float
    memory: float
    iteration_time: float
    throughput: float
    prompts: tuple[float, ...]


def token_load(types: Sequence[PromptType]) -> float:
    """Return W = sum_j lambda_j S_j, the work that arrives per second, in tokens x iterations.

    lambda_j prompts of type j arrive per second, and each holds S_j tokens summed over its
    iterations (`PromptType.footprint`).

    Raises
    ------
    InvalidValueError
        No types.
    InvalidTypeError
        A type that is not a `PromptType`.
    """
    if not types:
        raise InvalidValueError(None, "types", [], "is empty: at least one is needed")
    for j, kind in enumerate(types):
        if not isinstance(kind, PromptType):
            raise InvalidTypeError(f"type {j}", "type", kind, "is not a PromptType")
    return math.fsum(kind.arrival_rate * kind.footprint for kind in types)


def is_stable(
    types: Sequence[PromptType], d0: float, d1: float, memory_limit: int | None = None
) -> bool:
    """Return whether some policy keeps latencies bounded as time goes on.

    An iteration with X tokens takes d0 + d1 X seconds. W = sum_j lambda_j S_j is `token_load`.
    Without a memory limit the condition is d1 W < 1: a prompt of type j costs at least d1 S_j
    seconds, so for d1 W >= 1 no policy keeps up ([A25] Proposition 1).

    With a memory limit of C tokens an iteration holds at most C tokens. Each token then costs at
    least d1 + d0 / C seconds, and the condition is W (d1 + d0 / C) < 1. It is stronger than
    d1 W < 1 and equivalent to M* < C, with the memory M* of the `equilibrium`. If it holds,
    `wait_thresholds` finds thresholds that keep latencies bounded, unless rounding them to whole
    numbers prevents this.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No types, or a number out of its range.
    """
    d0, d1 = coefficients(d0, d1)
    cost = d1
    if memory_limit is not None:
        cost += d0 / as_integer(memory_limit, None, "memory_limit", minimum=1)
    return token_load(types) * cost < 1


def equilibrium(types: Sequence[PromptType], d0: float, d1: float) -> Equilibrium:
    """Return the fluid equilibrium, in which arrivals during an iteration equal its completions.

    Parameters
    ----------
    types : Sequence[PromptType]
        The workload.
    d0 : float
        Fixed seconds of each iteration, > 0.
    d1 : float
        Seconds that each token of the batch adds to an iteration, >= 0.

    Raises
    ------
    InvalidValueError
        No types, a coefficient out of range, or d1 W >= 1, for which no equilibrium exists.
    InvalidTypeError
        A coefficient that is not a number.
    """
    d0, d1 = coefficients(d0, d1)
    total = token_load(types)
    load = d1 * total
    if load >= 1:
        raise InvalidValueError(
            "workload", "load", load, "is not below 1: no policy is stable ([A25] Proposition 1)"
        )
    duration = d0 / (1 - load)
    return Equilibrium(
        load=load,
        memory=duration * total,
        iteration_time=duration,
        throughput=math.fsum(kind.arrival_rate * kind.decode_length for kind in types),
        prompts=tuple(kind.arrival_rate * duration * kind.stages for kind in types),
    )


def coefficients(d0: float, d1: float) -> tuple[float, float]:
    """Check d0 > 0 and d1 >= 0, and return them as floats.

    An iteration with X tokens takes d0 + d1 X seconds.

    Raises
    ------
    InvalidTypeError
        A coefficient is not a number.
    InvalidValueError
        A coefficient is out of its range.
    """
    return (
        as_number(d0, "iteration time", "d0", above=0),
        as_number(d1, "iteration time", "d1", minimum=0),
    )
