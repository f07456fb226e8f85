"""Experiments as they are declared: instances, policies, predictions, seeds and solver limits.

`read_experiment` reads the TOML form (docs/experiments.md), in which a ``grid`` of parameters
stands for every combination; here every combination has been written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from instances import InvalidTypeError, InvalidValueError, ServiceLevel
from instances.batch_time import AffineTime, TiledTime
from instances.batch_time.presets import Stored, batch_time_document
from instances.registry import Registry
from instances.sources import user_sources
from instances.validation import as_integer, as_name, as_time_limit, set_fields
from online.batch_time.measured_tables import read_batch_time
from online.comparison.comparing import check_level
from online.policy_interface.predictions import (
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
    PredictionModel,
    ProportionalPredictions,
)
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs

from .families import InstanceSource, check_json, check_trials, checked_seeds, refuse_repeats

PREDICTION_MODELS: Registry[Callable[..., PredictionModel]] = Registry("prediction model")
PREDICTION_MODELS.update(
    exact=ExactPredictions,
    interval=IntervalPredictions,
    buckets=BucketPredictions,
    proportional=ProportionalPredictions,
    noisy=NoisyPredictions,
)

BATCH_TIME = "batch_time"
"""Key of the batch time in what is stored of an experiment in seconds."""

POLICY_TIME_LIMIT = "policy_time_limit"

LEVEL = "level"
"""Key of the service level's limits in what is stored of an experiment that has one."""

PREEMPTING = "preempting"
"""Key of the labels of the policies that may preempt, in what is stored of an experiment."""

METHODS = ("auto", "paths", "mip")
"""Of `hindsight.solve`, which is not imported to check a declaration."""


@dataclass(frozen=True)
class Predictions:
    """Model of `online.policy_interface`, by name, of what policies are told of output lengths.

    Attributes
    ----------
    name : str
        ``"exact"``, ``"interval"``, ``"buckets"``, ``"proportional"`` or ``"noisy"``.
    parameters : Mapping[str, Any]
        Of the model.
    """

    name: str = "exact"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_json(f"predictions {self.name!r}", self.parameters)
        self.make()

    @property
    def label(self) -> str:
        """``name`` or ``name(key=value, ...)``."""
        return PolicySpec(self.name, self.parameters).label

    @property
    def draws(self) -> bool:
        """Tell whether the model uses its random stream."""
        return self.name == "noisy"

    def make(self) -> PredictionModel:
        """Make the model.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            A parameter it does not have, or out of range.
        """
        try:
            return PREDICTION_MODELS[self.name](**self.parameters)
        except InvalidTypeError:
            raise
        except TypeError as error:
            owner, reason = f"predictions {self.name!r}", f"does not fit the model: {error}"
            raise InvalidValueError(owner, "parameters", dict(self.parameters), reason) from None


@dataclass(frozen=True)
class Solver:
    """Limits within which the hindsight optimum of each instance is sought.

    Attributes
    ----------
    time_limit : float or None
        Seconds for each instance, or None. Where it strikes, the interval depends on the machine
        and on what else it does; without one every optimum is proved and the same anywhere.
    method, seed, threads : str, int, int
        As in `hindsight.solve`.
    """

    time_limit: float | None = None
    method: str = "auto"
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        set_fields(
            self,
            # 10 and 10.0 are the same limit, and must not become two keys.
            time_limit=as_time_limit(self.time_limit, "solver"),
            seed=as_integer(self.seed, "solver", "seed", minimum=0),
            threads=as_integer(self.threads, "solver", "threads", minimum=1),
        )
        if self.method not in METHODS:
            reason = f"is not one of {', '.join(METHODS)}"
            raise InvalidValueError("solver", "method", self.method, reason)

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `hindsight.solve`."""
        return asdict(self)


@dataclass(frozen=True)
class Experiment:
    """Every policy on every instance under every prediction model.

    Attributes
    ----------
    name : str
        In tables.
    families : Sequence[Family | TraceWindows | InstanceFiles | LibraryInstances]
        Where the instances come from.
    policies : Sequence[AnyPolicy] or None
        As `online.compare` takes them; None takes every policy that needs no parameters.
    predictions : Sequence[Predictions]
        What the policies are told of output lengths.
    policy_seeds : Iterable[int]
        Seeds of a run's random choices. Where a run makes none (see `Predictions.draws` and
        `online.Policy.randomized`; arrivals that react may draw) only the first is used: repeating
        a run that cannot differ would only make intervals look narrower.
    solver : Solver or None
        Limits of the optima; None leaves them out, and every ratio unknown.
    batch_time : AffineTime or TiledTime or str or None
        Seconds of a round, or as `read_batch_time` reads it. Latencies are then in seconds, beside
        the least of every scheduler, and so are the arrival times of the instances; None counts
        rounds.
    policy_time_limit : float or None
        Seconds for each run, after which it counts as failed; None lets each run to its end.
    level : ServiceLevel or None
        Limits of all requests, in rounds, or in seconds with a batch time. Policies may read them,
        requests on time are counted, and the most of any scheduler is sought for each instance.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError, MissingParameterError
        By name and value.
    """

    name: str
    families: Sequence[InstanceSource]
    policies: Sequence[AnyPolicy] | None = None
    predictions: Sequence[Predictions] = field(default_factory=lambda: (Predictions(),))
    policy_seeds: Iterable[int] = (0,)
    solver: Solver | None = field(default_factory=Solver)
    batch_time: AffineTime | TiledTime | str | None = None
    policy_time_limit: float | None = None
    level: ServiceLevel | None = None

    def __post_init__(self) -> None:
        if not as_name(self.name, "experiment", "name").strip():
            raise InvalidValueError("experiment", "name", self.name, "is not a name")
        owner = f"experiment {self.name!r}"
        check_level(self.level)
        specs = self.specs
        for spec in specs:
            check_json(f"policy {spec.name!r}", spec.params)
        set_fields(
            self,
            batch_time=self._checked_batch_time(owner),
            policy_time_limit=as_time_limit(self.policy_time_limit, owner, POLICY_TIME_LIMIT),
            policies=tuple(specs),
            families=tuple(self.families),
            predictions=tuple(self.predictions),
            policy_seeds=checked_seeds(owner, "policy_seeds", self.policy_seeds),
        )
        for name, chosen in (
            ("families", [family.title for family in self.families]),
            ("predictions", [model.label for model in self.predictions]),
        ):
            if not chosen:
                raise InvalidValueError(owner, name, [], "is empty: at least one is needed")
            refuse_repeats(owner, name, chosen)
        drawn = sum(len(tuple(family.seeds)) for family in self.families)
        check_trials(owner, drawn * len(self.predictions) * len(specs))

    def _checked_batch_time(self, owner: str) -> AffineTime | TiledTime | None:
        time = self.batch_time
        if isinstance(time, str):
            time, _ = read_batch_time(time)
        if time is not None and not isinstance(time, AffineTime | TiledTime):
            reason = "is neither an AffineTime nor a TiledTime nor a text"
            raise InvalidTypeError(owner, "batch_time", time, reason)
        if time is not None and self.solver is not None and self.solver.method != "auto":
            reason = "cannot be chosen beside batch_time"
            raise InvalidValueError("solver", "method", self.solver.method, reason)
        return time

    @property
    def seconds(self) -> AffineTime | TiledTime | None:
        """Batch time, read; None in rounds."""
        return None if isinstance(self.batch_time, str) else self.batch_time

    @property
    def coefficients(self) -> Stored | None:
        """Coefficients of the batch time, JSON-ready; None in rounds."""
        return None if self.seconds is None else batch_time_document(self.seconds)

    @property
    def limits(self) -> dict[str, float] | None:
        """Limits of the service level, JSON-ready; None without one."""
        if self.level is None:
            return None
        return {name: limit for name, limit in asdict(self.level).items() if limit is not None}

    @property
    def specs(self) -> list[PolicySpec]:
        """Policies, checked."""
        return policy_specs(self.policies, deadlines=self.level is not None)

    @property
    def preempting(self) -> list[str] | None:
        """Labels of the policies that declare that they may preempt; None in seconds."""
        labels = [spec.label for spec in self.specs if spec.make().preempts]
        return labels if labels and self.batch_time is None else None

    def search_options(self) -> dict[str, Any] | None:
        """Return what defines a search but for the instance: in seconds the batch time too."""
        if self.solver is None:
            return None
        time = self.coefficients
        return {**self.solver.options(), **({} if time is None else {BATCH_TIME: time})}

    def to_document(self) -> dict[str, Any]:
        """Return everything that defines the experiment, JSON-ready."""
        document = {
            "name": self.name,
            "families": [family.to_document() for family in self.families],
            "policies": [
                {"name": spec.name, "parameters": dict(spec.params)} for spec in self.specs
            ],
            "predictions": [
                {"name": model.name, "parameters": dict(model.parameters)}
                for model in self.predictions
            ],
            "policy_seeds": list(self.policy_seeds),
            "solver": None if self.solver is None else self.solver.options(),
        }
        # Not where there is none: an experiment without them is the one it always was.
        added = {
            BATCH_TIME: self.coefficients,
            POLICY_TIME_LIMIT: self.policy_time_limit,
            LEVEL: self.limits,
            PREEMPTING: self.preempting,
        }
        return document | {name: one for name, one in added.items() if one is not None}


def prediction_sources(name: str) -> str | None:
    """Digest of the user's own code behind a prediction model, see `sources.user_sources`.

    Raises
    ------
    UnknownNameError
        No such model.
    InvalidValueError
        The code cannot be told.
    """
    return user_sources(PREDICTION_MODELS[name], f"predictions {name!r}")
