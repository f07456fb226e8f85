"""What a policy is: what it sees, what it may decide, how it is registered."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np

from instances import InvalidValueError, UnknownNameError
from instances.request import RequestId

from .predictions import Prediction
from .service_model import ServiceModel


class PolicyError(RuntimeError):
    """A policy decided something impossible; the message names policy, round and request."""


class KnowledgeError(RuntimeError):
    """A policy asked for an output length that its knowledge model does not reveal."""


@dataclass(frozen=True, slots=True)
class VisibleRequest:
    """All that a policy may know of a request; the true output length is not among it.

    Attributes
    ----------
    index : order of appearance, the handle used in decisions.
    id : the request's label.
    arrival_time : rounds, or seconds in continuous time.
    prompt_length : tokens.
    prediction : what is foretold of the output length.
    """

    index: int
    id: RequestId
    arrival_time: float
    prompt_length: int
    prediction: Prediction

    @property
    def output_length(self) -> int:
        """The output length, where the knowledge model tells it exactly.

        Raises
        ------
        KnowledgeError: the prediction is an interval.
        """
        if not self.prediction.is_exact:
            raise KnowledgeError(
                f"request {self.id!r}: the output length is only known to lie in "
                f"[{self.prediction.lower}, {self.prediction.upper}]"
            )
        return self.prediction.point


class RunningRequest:
    """A request in the batch, as a policy sees it.

    Attributes
    ----------
    request : the visible request.
    start_round : decision epoch at which the current attempt began.
    rounds_held : rounds of this attempt in which it kept its memory without advancing.
    """

    __slots__ = ("request", "rounds_held", "start_round")

    def __init__(self, request: VisibleRequest, start_round: int) -> None:
        self.request = request
        self.start_round = start_round
        self.rounds_held = 0

    def rounds_run(self, now: int) -> int:
        """Rounds in which the current attempt advanced, by decision epoch ``now``."""
        return now - self.start_round - self.rounds_held


class Meters:
    """The machine's own counters, which `State` shows."""

    __slots__ = ("memory", "round_index", "time", "waiting_count")

    def __init__(self) -> None:
        self.round_index = 0
        self.time: float = 0
        self.memory = 0
        self.waiting_count = 0


class State:
    """The machine at a decision epoch, read-only for policies.

    Attributes
    ----------
    round_index : rounds run so far; the decision is about round ``round_index + 1``.
    time : the clock: equal to ``round_index`` in the round model, seconds otherwise.
    memory_limit : capacity M, tokens.
    running : requests in the batch by index, in order of admission.
    waiting_count : requests that have arrived and are not running.
    memory : tokens the running requests held in the last round they advanced or were held.
    """

    __slots__ = ("_memory_limit", "_meters", "running")

    def __init__(
        self, memory_limit: int, running: Mapping[int, RunningRequest], meters: Meters
    ) -> None:
        self._memory_limit = memory_limit
        self._meters = meters
        self.running = MappingProxyType(running)

    @property
    def memory_limit(self) -> int:
        """M."""
        return self._memory_limit

    @property
    def round_index(self) -> int:
        """Rounds run so far."""
        return self._meters.round_index

    @property
    def time(self) -> float:
        """The clock."""
        return self._meters.time

    @property
    def memory(self) -> int:
        """Tokens held by the running requests."""
        return self._meters.memory

    @property
    def waiting_count(self) -> int:
        """Requests in the queue."""
        return self._meters.waiting_count

    @property
    def next_round_memory(self) -> int:
        """Tokens held in the next round if every running request advances and none starts."""
        return self._meters.memory + len(self.running)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy does at a decision epoch.

    Attributes
    ----------
    start : indices of waiting requests to put into the batch.
    evict : indices of running requests to send back to the queue, all progress lost.
    hold : indices of running requests that keep their memory but do not advance.
    wake : round at which to be asked again even if nothing happens until then; None waits for
        the next arrival or completion, or for the round before memory would overflow.
    """

    start: Sequence[int] = ()
    evict: Sequence[int] = ()
    hold: Sequence[int] = ()
    wake: int | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """What a policy is told before a run: capacity M, the service model, its random stream."""

    memory_limit: int
    service_model: ServiceModel
    rng: np.random.Generator


class Policy(ABC):
    """An online scheduling policy.

    The simulator calls `reset` once, then at each decision epoch, in this order: `complete` for
    requests that finished, `arrive` for requests that appeared or were sent back, `decide`. The
    epochs are: every arrival, every completion, the epoch before memory would overflow, and the
    round named by `Decision.wake`.

    Attributes
    ----------
    name : the registered name, set by `register_policy`; the class's name otherwise.
    randomized : whether the run depends on the random stream.
    """

    name: ClassVar[str]
    randomized: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def reset(self, setup: Setup) -> None:
        """Forget everything and prepare for a run."""

    @abstractmethod
    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Requests joined the queue: new ones, or evicted ones coming back."""

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Requests finished; they are no longer in ``state.running``."""

    @abstractmethod
    def decide(self, state: State) -> Decision:
        """Choose what to start, evict and hold for the next round."""

    def drain(self, state: State) -> bool:
        """Nothing advances and nothing more will arrive; True to be asked once more.

        A policy that waits for company would leave the end of a finite trace unserved. Here it
        may drop that rule; `Run.drain_round` tells from when on it had.
        """
        return False

    def memory_of_past(self) -> Any:
        """Whatever the next decisions depend on besides queue and batch, hashable.

        Two epochs with equal queue, batch and memory of the past lead to the same future, which
        is how an endless loop of evictions is recognised. None means: cannot be told.
        """
        return None


PolicyClass = TypeVar("PolicyClass", bound=type[Policy])

_POLICIES: dict[str, Callable[..., Policy]] = {}


def register_policy(name: str) -> Callable[[PolicyClass], PolicyClass]:
    """Class decorator: make the policy available as ``make_policy(name, **params)``."""

    def register(policy: PolicyClass) -> PolicyClass:
        if name in _POLICIES:
            raise ValueError(f"policy {name!r} is registered twice")
        _POLICIES[name] = policy
        policy.name = name
        return policy

    return register


def policy_names() -> list[str]:
    """The registered policy names, sorted."""
    return sorted(_POLICIES)


def policy_parameters(name: str) -> dict[str, inspect.Parameter]:
    """The parameters that ``make_policy(name, ...)`` accepts.

    Raises
    ------
    UnknownNameError: no such policy.
    """
    if name not in _POLICIES:
        raise UnknownNameError("policy", name, policy_names())
    parameters = inspect.signature(_POLICIES[name]).parameters
    return {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def make_policy(name: str, **params: Any) -> Policy:
    """A fresh policy by registered name.

    Raises
    ------
    UnknownNameError: no such policy; the message lists those that are.
    InvalidValueError, InvalidTypeError: a parameter it does not have, or a bad value.
    """
    known = policy_parameters(name)
    for key, value in params.items():
        if key not in known:
            raise InvalidValueError(
                f"policy {name!r}",
                key,
                value,
                f"is not one of its parameters ({', '.join(known) or 'it has none'})",
            )
    return _POLICIES[name](**params)
