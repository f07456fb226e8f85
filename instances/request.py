"""One inference request."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InvalidTypeError
from .validation import LARGEST_INTEGER, LARGEST_TOKEN_COUNT, as_integer

RequestId = str | int


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be answered ([J25] Section 2).

    A request that starts at ``start_time`` t runs without interruption in rounds t+1 .. t+o and
    holds ``prompt_length`` + j tokens of KV cache in its j-th round.

    Parameters
    ----------
    arrival_time : earliest start a_i, a round index >= 0.
    prompt_length : prefill tokens s_i >= 0. Zero is for theorems that need it: an `Instance`
        accepts it only when told to.
    output_length : decode tokens o_i >= 1.
    id : a label, unique within an instance; None takes the position in the instance.

    Raises
    ------
    InvalidTypeError, InvalidValueError: a field is not a whole number in its range.
    """

    arrival_time: int
    prompt_length: int
    output_length: int
    id: RequestId | None = None

    def __post_init__(self) -> None:
        if self.id is not None and (
            not isinstance(self.id, (str, int)) or isinstance(self.id, bool)
        ):
            raise InvalidTypeError("request", "id", self.id, "is neither a string nor an integer")
        owner = "request" if self.id is None else f"request {self.id!r}"
        for field, minimum, maximum in (
            ("arrival_time", 0, LARGEST_INTEGER),
            ("prompt_length", 0, LARGEST_TOKEN_COUNT),
            ("output_length", 1, LARGEST_TOKEN_COUNT),
        ):
            value = getattr(self, field)
            number = as_integer(value, owner, field, minimum=minimum, maximum=maximum)
            object.__setattr__(self, field, number)

    @property
    def peak_memory(self) -> int:
        """KV tokens held in the last round, s + o."""
        return self.prompt_length + self.output_length

    @property
    def volume(self) -> int:
        """Token-rounds of KV cache over the whole run, s o + o (o + 1) / 2 ([J25] vol_o)."""
        return (
            self.prompt_length * self.output_length
            + self.output_length * (self.output_length + 1) // 2
        )
