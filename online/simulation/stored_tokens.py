"""The machine of policies that count memory themselves: every stored token, every block."""

from __future__ import annotations

from collections.abc import Collection

from instances.batch_time import BatchTime
from instances.problem.memory_rule import MemoryRule
from online.batch_time.service_model import ServiceModel
from online.policy_interface.policy import Policy, PolicyError, RunningRequest, VisibleRequest

from .machine import Machine


class StoredTokensMachine(Machine):
    """Counts what is stored by the memory rule, and checks each round's blocks against M.

    A request stores what is processed of its prompt, or all of it where the rule gives prompts
    memory as a whole; then a token more in each round, the newest or the one before it.
    """

    def __init__(
        self,
        memory_limit: int,
        service_model: ServiceModel,
        batch_time: BatchTime | None,
        rule: MemoryRule,
    ) -> None:
        super().__init__(memory_limit, service_model, batch_time, rule)
        self._counts_more = True
        # How many tokens of each preempted request had been processed.
        self._left_behind: dict[int, int] = {}

    def start(self, request: VisibleRequest, reused: int = 0) -> int:
        """Put a request into the batch; returns the output tokens it brings along."""
        had = self._left_behind.pop(request.index, 0)
        if not 0 <= reused <= had:
            raise PolicyError(
                f"request {request.id!r} was to reuse {reused} tokens of {had} processed before"
            )
        return super().start(request, reused)

    def preempt(self, index: int) -> None:
        """Take a request out of the batch, its output tokens kept."""
        running = self.running[index]
        tokens = running.request.prompt_length + running.rounds_run(self.meters.round_index)
        # The newest token is processed by the round after it.
        self._left_behind[index] = tokens - max(running.prompt_left, 1)
        super().preempt(index)

    def end(self, index: int) -> None:
        """Forget a request that has ended, where ends are told from outside."""
        self._left_behind.pop(index, None)
        super().end(index)

    def next_memory(self, held: Collection[int]) -> int:
        """Tokens of the blocks held in the next round if all running requests but these advance."""
        return self._blocks(1, set(held), {}) * self.rule.block_size

    def _tokens(self, running: RunningRequest) -> int:
        """Tokens stored by the end of the last round."""
        prompt = running.request.prompt_length
        run = running.rounds_run(self.meters.round_index)
        if run > running.tokens_kept:
            return prompt + run - self.rule.unstored
        return prompt + run - (running.prompt_left if self._in_chunks else 0)

    def _unstored(self, fresh: dict[int, RunningRequest], chunks: dict[int, int]) -> int:
        return 0

    def _stored(self, running: RunningRequest) -> int:
        return self._tokens(running)

    def _entering(self, fresh: dict[int, RunningRequest], chunks: dict[int, int]) -> int:
        entering = -self.rule.unstored * len(fresh)
        if self._in_chunks:
            entering += sum(running.prompt_left for running in fresh.values())
            entering += sum(chunks.values())
        return entering

    def _fitting(
        self, rounds: int, held: set[int], chunks: dict[int, int], policy_name: str
    ) -> int:
        usable = self.rule.usable_blocks(self.state.memory_limit)
        if self._blocks(rounds, held, chunks) <= usable:
            return rounds
        fits, too_many = 0, rounds
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self._blocks(middle, held, chunks) <= usable:
                fits = middle
            else:
                too_many = middle
        if not fits:
            raise PolicyError(
                f"policy {policy_name!r}, round {self.meters.round_index + 1}: the batch holds "
                f"{self._blocks(1, held, chunks)} blocks of {self.rule.block_size} tokens, and "
                f"there are {usable}"
            )
        return fits

    def _blocks(self, rounds: int, held: set[int], chunks: dict[int, int]) -> int:
        """Blocks held in the last of the next rounds."""
        size, unstored, now = self.rule.block_size, self.rule.unstored, self.meters.round_index
        total = 0
        for index, running in self.running.items():
            if index in held:
                stored = self._tokens(running) + (chunks.get(index, 0) if self._in_chunks else 0)
            else:
                stored = running.request.prompt_length + running.rounds_run(now) + rounds - unstored
            total += -(-stored // size)
        return total


def machine_for(
    policy: Policy,
    memory_limit: int,
    service_model: ServiceModel,
    batch_time: BatchTime | None,
    rule: MemoryRule,
) -> tuple[Machine, ServiceModel]:
    """Return the machine that a policy runs on, and the service model that it is told."""
    if policy.counts_memory:
        return StoredTokensMachine(memory_limit, service_model, batch_time, rule), service_model
    model = service_model.under(rule, pauses=policy.pauses)
    # So much more than the usable blocks: a request that fits alone stays one that does.
    limit = rule.limit(memory_limit) + rule.block_size - 1
    if policy.pauses:
        # Once any request has advanced, what is counted has a token that is not stored.
        limit += rule.unstored
    return Machine(limit, model, batch_time, rule), model
