"""Whom to evict when memory runs out: the requests admitted last ([A25] Section 2.4)."""

from __future__ import annotations

from collections.abc import Container

from online.batch_time.service_model import ServiceModel

from .policy import State


def held_tokens(state: State, model: ServiceModel, index: int) -> int:
    """Tokens that a running request holds at this epoch: l + s - 1 before stage s of [A25]."""
    running = state.running[index]
    return model.base(running.request.prompt_length) + running.rounds_run(state.round_index)


def last_admitted(
    state: State,
    model: ServiceModel,
    excess: int,
    among: Container[int] | None = None,
    growth: int = 1,
) -> list[int]:
    """Indices of running requests to evict, last admitted first, to free ``excess`` tokens.

    Parameters
    ----------
    state : State
        The machine.
    model : ServiceModel
        Its service model.
    excess : int
        Tokens by which the next round would exceed the limit; none if <= 0.
    among : Container[int] or None, default None
        Only these indices; None for all. With too few of them, all are returned.
    growth : int, default 1
        An eviction frees what the request holds plus this: 1 where a token was reserved for its
        next stage, 0 where not.
    """
    evict: list[int] = []
    for index in reversed(list(state.running)) if excess > 0 else ():
        if excess <= 0:
            break
        if among is None or index in among:
            evict.append(index)
            excess -= held_tokens(state, model, index) + growth
    return evict
