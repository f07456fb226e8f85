"""Service models: the rounds a request takes and the tokens it holds in each, by paper."""

from __future__ import annotations

from dataclasses import dataclass, replace

from instances import Instance, InvalidValueError
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH
from instances.problem.memory_rule import MemoryRule


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """A request with lengths (s, o) runs ``o + prefill_rounds`` rounds.

    In its k-th round (k = 1, 2, ...) it holds ``s + k - prefill_rounds`` tokens; the first
    ``prefill_rounds`` rounds emit no token. The peak is s + o in every model.

    Attributes
    ----------
    name : str
        Name of the model in tables.
    prefill_rounds : int
        Rounds spent on the prompt before the first token.
    margin : int
        Extra tokens per request that a policy must reckon with: see `under`.
    """

    name: str
    prefill_rounds: int
    margin: int = 0

    def rounds(self, output_length: int) -> int:
        """Return the rounds from start to completion."""
        return output_length + self.prefill_rounds

    def base(self, prompt_length: int) -> int:
        """Return the tokens held before the first round; the k-th round holds ``base + k``."""
        return prompt_length - self.prefill_rounds + self.margin

    def under(self, rule: MemoryRule, *, pauses: bool) -> ServiceModel:
        """Return the model for policies that count tokens if memory follows another rule.

        x stored tokens occupy at most x + block_size - 1 tokens. If a token is stored only in the
        next round, the newest is not stored yet, unless the request is held meanwhile, as by
        pausing policies.

        Raises
        ------
        InvalidValueError
            The rule stores a token one round later, and prefill rounds emit none.
        """
        if rule.unstored and self.prefill_rounds:
            reason = "has prefill rounds, which no memory rule with tokens stored next knows"
            raise InvalidValueError("simulation", "service_model", self.name, reason)
        margin = rule.block_size - 1 - (0 if pauses else rule.unstored)
        return replace(self, margin=margin) if margin else self

    def tokens_generated(self, rounds_run: int) -> int:
        """Return how many output tokens the request has after running for ``rounds_run`` rounds."""
        return max(0, rounds_run - self.prefill_rounds)

    def with_tokens_every_round(self, instance: Instance) -> Instance:
        """Return the instance that takes the same rounds and memory under `TOKEN_PER_ROUND`.

        Its requests have prompts shorter by ``prefill_rounds`` and outputs longer by as many, and
        keep their ids; a prompt may become empty. Without prefill rounds the instance is returned
        as is.
        """
        if not self.prefill_rounds:
            return instance
        requests = [
            replace(
                request,
                prompt_length=self.base(request.prompt_length),
                output_length=self.rounds(request.output_length),
            )
            for request in instance
        ]
        metadata = {**instance.metadata, ALLOW_ZERO_PROMPT_LENGTH: True}
        return Instance(
            requests,
            instance.memory_limit,
            instance.name,
            metadata,
            memory_rule=instance.memory_rule,
            replicas=instance.replicas,
        )


TOKEN_PER_ROUND = ServiceModel("token-per-round", 0)
"""[J25], [C25], [W25]: every round emits a token; round k holds s + k."""

PREFILL_ROUND = ServiceModel("prefill-round", 1)
"""[A25]: a prefill iteration holding s emits nothing, then o iterations hold s + 1 .. s + o."""
