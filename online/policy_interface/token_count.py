"""Count of tokens for policies that plan in tokens, whatever the memory rule."""

from __future__ import annotations

from collections.abc import Container

from .policy import RunningRequest, Setup, State


class TokenCount:
    """Count of tokens that is never below what the memory rule counts, so that plans stay valid.

    A request holds ``base(prompt_length) + k`` in the k-th round in which it advances. x stored
    tokens occupy at most x + block_size - 1 tokens, and the limit is raised by as much, so that a
    request that fits alone still does. If a token is stored only in the next round, the newest is
    not stored yet, unless the request is held meanwhile.

    Parameters
    ----------
    setup : Setup
        Memory of the machine.
    holds : bool, default False
        Whether the policy holds running requests.

    Attributes
    ----------
    limit : int
        Tokens that may be counted.
    prefill_rounds : int
        Rounds of a request that emit no token.
    """

    def __init__(self, setup: Setup, *, holds: bool = False) -> None:
        rule = setup.memory_rule
        self.limit = rule.limit(setup.memory_limit) + rule.block_size - 1
        self.prefill_rounds = setup.prefill_rounds
        self._margin = rule.block_size - 1
        if holds:
            self.limit += rule.unstored
        else:
            self._margin -= rule.unstored

    def base(self, prompt_length: int) -> int:
        """Return the tokens of a request less the rounds in which it has advanced."""
        return prompt_length - self.prefill_rounds + self._margin

    def rounds(self, output_length: int) -> int:
        """Return the rounds from start to completion."""
        return output_length + self.prefill_rounds

    def held(self, running: RunningRequest) -> int:
        """Return the tokens of a running request: l + s - 1 before stage s of [A25]."""
        return running.tokens + self._margin

    def memory(self, state: State) -> int:
        """Return the tokens of the batch."""
        return state.tokens + self._margin * len(state.running)

    def excess(self, state: State) -> int:
        """Return the tokens above the limit in the next round, if the whole batch advances."""
        return self.memory(state) + len(state.running) - self.limit

    def last_admitted(
        self, state: State, excess: int, among: Container[int] | None = None, growth: int = 1
    ) -> list[int]:
        """Return whom to evict to free ``excess`` tokens: who was admitted last ([A25] 2.4).

        Parameters
        ----------
        state : State
            The machine.
        excess : int
            Tokens to free; none if <= 0.
        among : Container[int] or None, default None
            Only these indices; None for all. With too few of them, all are returned.
        growth : int, default 1
            An eviction frees what the request holds plus this: 1 where a token was reserved for its
            next stage, 0 where not.
        """
        evict: list[int] = []
        for index in reversed(state.running) if excess > 0 else ():
            if excess <= 0:
                break
            if among is None or index in among:
                evict.append(index)
                excess -= self.held(state.running[index]) + growth
        return evict
