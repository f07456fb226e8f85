"""What a policy is told about output lengths before they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from instances import InvalidValueError


@dataclass(frozen=True, slots=True)
class Prediction:
    """An interval for an output length, in tokens: lower <= point <= upper.

    Nothing forces the truth into the interval; a prediction model says whether it does.
    """

    lower: int
    point: int
    upper: int

    def __post_init__(self) -> None:
        if not 1 <= self.lower <= self.point <= self.upper:
            raise InvalidValueError(
                "prediction",
                "(lower, point, upper)",
                (self.lower, self.point, self.upper),
                "is not an increasing triple of positive lengths",
            )

    @property
    def is_exact(self) -> bool:
        """Whether the interval is a single length."""
        return self.lower == self.upper


class PredictionModel(Protocol):
    """Draws what the policies are told about each request."""

    def predict(
        self, prompt_length: int, output_length: int, rng: np.random.Generator
    ) -> Prediction:
        """The prediction for one request, drawn at its arrival."""


@dataclass(frozen=True)
class ExactPredictions:
    """The policies know every output length at arrival ([J25] Section 2, [W25])."""

    def predict(
        self, prompt_length: int, output_length: int, rng: np.random.Generator
    ) -> Prediction:
        """The truth."""
        return Prediction(output_length, output_length, output_length)
