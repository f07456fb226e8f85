"""Prediction models of output lengths by name, such as ``"noisy(delta=3)"``."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Callable
from typing import Any, Self

from instances import InvalidTypeError, InvalidValueError
from instances.problem.arrival_source import AnySource
from instances.registry import Registry
from online.policy_interface.predictions import (
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
    PredictionModel,
    ProportionalPredictions,
    RelativePredictions,
)
from online.policy_interface.specs import Spec

MODELS: Registry[Callable[..., PredictionModel]] = Registry("prediction model")
MODELS.update(
    exact=ExactPredictions,
    interval=IntervalPredictions,
    buckets=BucketPredictions,
    proportional=ProportionalPredictions,
    noisy=NoisyPredictions,
    relative=RelativePredictions,
)

WITHOUT_DRAWS = ("exact", "interval", "buckets", "proportional")


class _Model(ABC):  # noqa: B024 (no class extends it)
    """Abstract class for `isinstance`: every object with a method ``predict`` is an instance."""

    @classmethod
    def __subclasshook__(cls, other: type, /) -> bool:
        return callable(getattr(other, "predict", None))


class PredictionSpec(Spec[Any]):
    """A model of predicted output lengths with its parameters, such as ``noisy(delta=3)``."""

    kind, base, registry = "predictions", _Model, MODELS

    @classmethod
    def of(cls, thing: Any, folder: str | os.PathLike[str] = ".") -> Self:
        """Return the `PredictionSpec` for ``thing``: text, prediction model or `PredictionSpec`.

        Paths in the text are relative to ``folder``.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            ``thing`` is of another type, or the text cannot be read.
        """
        if not isinstance(thing, str | cls) and not callable(getattr(thing, "predict", None)):
            reason = "is not text and has no method predict"
            raise InvalidTypeError(None, cls.kind, thing, reason)
        spec = super().of(thing, folder)
        names = [name for name, kind in MODELS.items() if type(spec.given) is kind]
        return cls(names[0], spec.params) if names else spec

    @property
    def draws(self) -> bool:
        """Whether the predictions may be random, so that they depend on the seed of a run."""
        return self.given is not None or self.name not in WITHOUT_DRAWS

    def made(self, problem: AnySource) -> PredictionModel:
        """Return the prediction model itself, made for a problem.

        For ``interval`` without parameters, the interval goes from the least to the largest output
        length of the problem.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            A parameter is missing, unknown or out of range.
        """
        if self.name == "interval" and not self.params and self.given is None:
            outputs = getattr(problem, "output_lengths", None)
            if outputs is None or not len(outputs):
                reason = "needs lower and upper: the problem has no output lengths before a run"
                raise InvalidValueError(None, "predictions", self.name, reason)
            return IntervalPredictions(int(outputs.min()), int(outputs.max()))
        model: PredictionModel = self.make()
        return model


def as_predictions(given: Any) -> list[PredictionSpec]:
    """Return one or several prediction models as a list of `PredictionSpec`, after a check.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A name is unknown, a parameter is invalid, or a model is given twice.
    """
    specs = PredictionSpec.several(given)
    for spec in specs:
        if spec.given is None and (spec.params or spec.name != "interval"):
            spec.make()
    return specs
