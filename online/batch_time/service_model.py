"""Service models: rounds that a request takes and tokens it holds in each, by paper."""

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
        How tables call the model.
    prefill_rounds : int
        Rounds spent on the prompt before the first token.
    margin : int
        Tokens that a policy reckons with beyond those, for each request: see `under`.
    """

    name: str
    prefill_rounds: int
    margin: int = 0

    def rounds(self, output_length: int) -> int:
        """Rounds from start to completion."""
        return output_length + self.prefill_rounds

    def base(self, prompt_length: int) -> int:
        """Tokens held before the first round, so that the k-th round holds ``base + k``."""
        return prompt_length - self.prefill_rounds + self.margin

    def under(self, rule: MemoryRule, *, pauses: bool) -> ServiceModel:
        """The model for policies that count tokens, where memory is counted by another rule.

        x stored tokens take up x + block_size - 1 tokens at most. Where a token is stored next the
        newest is none of them, unless the request is held meanwhile, as policies that pause may do.

        Raises
        ------
        InvalidValueError
            A token stored next after prefill rounds, the first of which emits none.
        """
        if rule.unstored and self.prefill_rounds:
            reason = "has prefill rounds, which no memory rule with tokens stored next knows"
            raise InvalidValueError("simulation", "service_model", self.name, reason)
        margin = rule.block_size - 1 - (0 if pauses else rule.unstored)
        return replace(self, margin=margin) if margin else self

    def tokens_generated(self, rounds_run: int) -> int:
        """Output tokens emitted after ``rounds_run`` rounds."""
        return max(0, rounds_run - self.prefill_rounds)

    def with_tokens_every_round(self, instance: Instance) -> Instance:
        """The instance of `TOKEN_PER_ROUND` that takes the rounds and the memory of this model.

        Its requests have prompts shorter by ``prefill_rounds`` and outputs longer by as many, and
        keep their ids; a prompt may become empty. Without prefill rounds it is the same instance.
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
        )


TOKEN_PER_ROUND = ServiceModel("token-per-round", 0)
"""[J25], [C25], [W25]: every round emits a token; round k holds s + k."""

PREFILL_ROUND = ServiceModel("prefill-round", 1)
"""[A25]: a prefill iteration holding s emits nothing, then o iterations hold s + 1 .. s + o."""
