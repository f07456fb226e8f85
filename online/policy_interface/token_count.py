"""Count of memory in tokens, for policies that plan in tokens under any memory rule."""

from __future__ import annotations

from collections.abc import Container

from .policy import RunningRequest, Setup, State


class TokenCount:
    """Count of memory in tokens that is never below the count of the memory rule.

    So a policy can plan in tokens, without knowledge of blocks, and its plans fit into memory. A
    request counts ``base(prompt_length) + k`` tokens in the k-th round in which it advances. x
    stored tokens occupy blocks of at most x + block_size - 1 tokens. So each request counts
    block_size - 1 tokens more than it stores. The limit is raised by block_size - 1 tokens, so that
    every request that fits alone still fits. Some rules store a token one round after it is
    emitted. The newest token of a request is then not counted, unless the policy holds requests.

    Parameters
    ----------
    setup : Setup
        Memory of the machine.
    holds : bool, default False
        Whether the policy holds running requests.

    Attributes
    ----------
    limit : int
        Largest count of tokens in a round.
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
        """Return the constant part of the count of a request with this prompt length.

        Its count is this number plus the number of rounds in which it has advanced.
        """
        return prompt_length - self.prefill_rounds + self._margin

    def rounds(self, output_length: int) -> int:
        """Return the rounds of a request from start to completion."""
        return output_length + self.prefill_rounds

    def held(self, running: RunningRequest) -> int:
        """Return the count of tokens of a running request now.

        Before stage l of a request with prompt length s in [A25] it is l + s - 1.
        """
        return running.tokens + self._margin

    def memory(self, state: State) -> int:
        """Return the count of tokens of the batch now."""
        return state.tokens + self._margin * len(state.running)

    def excess(self, state: State) -> int:
        """Return the tokens above the limit in the next round, if the whole batch advances."""
        return self.memory(state) + len(state.running) - self.limit

    def last_admitted(
        self, state: State, excess: int, among: Container[int] | None = None, growth: int = 1
    ) -> list[int]:
        """Return the last admitted requests whose eviction frees ``excess`` tokens ([A25] 2.4).

        Parameters
        ----------
        state : State
            The machine.
        excess : int
            Tokens to free; if <= 0, no request is evicted.
        among : Container[int] or None, default None
            Indices of the requests that may be evicted. None: all running requests. If these do
            not free enough tokens, all of them are returned.
        growth : int, default 1
            Tokens that an eviction frees in addition to those of the request: 1 if a token is
            reserved for its next stage, else 0.
        """
        evict: list[int] = []
        for index in reversed(state.running) if excess > 0 else ():
            if excess <= 0:
                break
            if among is None or index in among:
                evict.append(index)
                excess -= self.held(state.running[index]) + growth
        return evict
