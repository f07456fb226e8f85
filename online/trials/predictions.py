"""Prediction models by name: ``"noisy(delta=3)"``."""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

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

AnySpec = TypeVar("AnySpec", bound=Spec[Any])

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
    """Every class that has a method ``predict``."""

    @classmethod
    def __subclasshook__(cls, other: type, /) -> bool:
        return callable(getattr(other, "predict", None))


class PredictionSpec(Spec[Any]):
    """A prediction model with its parameters."""

    kind, base, registry = "predictions", _Model, MODELS

    @property
    def draws(self) -> bool:
        """Return whether the model may use its random stream."""
        return self.given is not None or self.name not in WITHOUT_DRAWS

    def made(self, problem: AnySource) -> PredictionModel:
        """Return the model for a problem.

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
    """Return a choice of prediction models as a list of specs, checked.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A name is unknown, a parameter is invalid, or a model is given twice.
    """
    specs = choice("predictions", given, _spec)
    for spec in specs:
        if spec.given is None and (spec.params or spec.name != "interval"):
            spec.make()
    return specs


def choice(field: str, given: Any, read: Callable[[Any], AnySpec]) -> list[AnySpec]:
    """Return one thing or several as a list of specs, none of them twice."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    specs = [read(one) for one in (given if several else [given])]
    if not specs:
        raise InvalidValueError(None, field, [], "is empty: at least one is needed")
    for label, count in Counter(spec.label for spec in specs).items():
        if count > 1:
            raise InvalidValueError(None, field, label, "is given twice")
    return specs


def _spec(given: Any) -> PredictionSpec:
    if isinstance(given, PredictionSpec):
        return given
    if isinstance(given, str):
        return PredictionSpec.read(given)
    if not callable(getattr(given, "predict", None)):
        raise InvalidTypeError(None, "predictions", given, "is not text and has no method predict")
    own: list[Any] = [one for one in fields(given) if one.init] if is_dataclass(given) else []
    changed = {one.name: value for one in own if (value := getattr(given, one.name)) != one.default}
    for name, kind in MODELS.items():
        if type(given) is kind:
            return PredictionSpec(name, changed)
    return PredictionSpec(type(given).__name__, changed, given)
