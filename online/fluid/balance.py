"""The fluid equilibrium of [A25] Section 3, and the condition under which one exists.

A prompt with prefill length l and decode length l' runs l' + 1 iterations, stages s = 0 .. l', and
holds l + s tokens at stage s: ``prefill_rounds=1`` of `online.simulate`. An iteration takes
d0 + d1 * (tokens of the batch) seconds: `instances.batch_time.models.IterationTime`.
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
    """Prompts of equal lengths that arrive in a Poisson process ([A25] Section 2.2).

    Parameters
    ----------
    arrival_rate : float
        lambda_j, prompts per second, > 0.
    prefill_length : int
        l_j, tokens, >= 1.
    decode_length : int
        l'_j, tokens, >= 1.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A field out of its range.
    """

    # Below the limit no sum of loads leaves the range of floats.
    arrival_rate: float = ranged(above=0, maximum=LARGEST_INTEGER)
    prefill_length: int = ranged(minimum=1, maximum=LARGEST_TOKEN_COUNT)
    decode_length: int = ranged(minimum=1, maximum=LARGEST_TOKEN_COUNT)

    def __post_init__(self) -> None:
        check_ranges(self, "prompt type")

    @property
    def stages(self) -> int:
        """Number of iterations of a prompt, l' + 1."""
        return self.decode_length + 1

    @property
    def footprint(self) -> int:
        """S_j = (l' + 1)(l + l'/2), the sum of l + s over the stages: token-iterations."""
        return self.stages * self.prefill_length + self.stages * self.decode_length // 2


@dataclass(frozen=True)
class Equilibrium:
    """The balanced state of the fluid model ([A25] Equations (4)-(10)).

    Attributes
    ----------
    load : float
        d1 W, the share of time that is not overhead; < 1. W = sum_j lambda_j S_j is the number of
        token-iterations that arrive per second: type j has lambda_j prompts per second, and one
        prompt holds S_j tokens summed over its iterations. An iteration with X tokens takes
        d0 + d1 X seconds.
    memory : float
        M*, tokens ([A25] Equations (5), (8)).
    iteration_time : float
        DT* = d0 + d1 M*, seconds ([A25] Equation (9)).
    throughput : float
        Thr* = sum_j lambda_j l'_j, decode tokens per second ([A25] Equations (6), (10)).
    prompts : tuple[float, ...]
        n*_j, prompts of each type in service, over all their stages ([A25] Equation (7)).
    """

    load: float
    memory: float
    iteration_time: float
    throughput: float
    prompts: tuple[float, ...]


def token_load(types: Sequence[PromptType]) -> float:
    """W = sum_j lambda_j S_j: token-iterations that arrive in a second.

    Raises
    ------
    InvalidValueError
        No types. InvalidTypeError: something that is not a `PromptType`.
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
    """Return whether some policy keeps latencies bounded.

    Without a memory limit: d1 W < 1. Otherwise no policy does, because every prompt costs at least
    d1 S_j seconds ([A25] Proposition 1). An iteration holds at most C tokens, so with a limit C a
    token costs at least d1 + d0 / C seconds, and W (d1 + d0 / C) < 1 is necessary. That is M* < C,
    a sharper condition than Proposition 1's; `wait_thresholds` attains it up to rounding.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        As `equilibrium`, but for the load.
    """
    d0, d1 = coefficients(d0, d1)
    cost = d1
    if memory_limit is not None:
        cost += d0 / as_integer(memory_limit, None, "memory_limit", minimum=1)
    return token_load(types) * cost < 1


def equilibrium(types: Sequence[PromptType], d0: float, d1: float) -> Equilibrium:
    """The fluid equilibrium: arrivals of an iteration equal its completions.

    Parameters
    ----------
    types : Sequence[PromptType]
        The workload.
    d0 : float
        Fixed seconds per iteration, > 0.
    d1 : float
        Seconds per token of the batch, >= 0.

    Raises
    ------
    InvalidValueError
        No types, a coefficient out of range, or d1 W >= 1, where there is none.
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
    """d0 > 0 and d1 >= 0 as floats.

    Raises
    ------
    InvalidTypeError
        Not a number. InvalidValueError: out of range.
    """
    return (
        as_number(d0, "iteration time", "d0", above=0),
        as_number(d1, "iteration time", "d1", minimum=0),
    )
