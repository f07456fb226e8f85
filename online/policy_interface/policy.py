"""Interface of a policy: what it sees, what it may decide, and how it is registered."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np

from instances.errors import InvalidValueError
from instances.problem.batches import BatchTime
from instances.problem.memory_rule import TOKENS, MemoryRule
from instances.problem.request import RequestId
from instances.registry import Registry
from instances.service_level import ServiceLevel, limits_of
from online.batch_time.service_model import ServiceModel

from .predictions import Prediction


class PolicyError(RuntimeError):
    """A policy decided something impossible; the message names policy, round and request."""


class DecisionStoppedError(RuntimeError):
    """A policy gave up a decision because ``should_stop`` returned True; it ends the run."""


class KnowledgeError(RuntimeError):
    """A policy asked for an output length that its knowledge model does not reveal."""


@dataclass(frozen=True, slots=True)
class VisibleRequest:
    """Facts that a policy may know of a request; the true output length is not among them.

    Attributes
    ----------
    index : int
        Order of appearance, the handle used in decisions.
    id : RequestId
        The request's label.
    arrival_time : float
        Rounds, or seconds in continuous time.
    prompt_length : int
        Tokens.
    prediction : Prediction
        Prediction of the output length.
    weight : int, default 1
        How often its latency counts in the total.
    level : ServiceLevel or None, default None
        What it may take, if the run has a service level.
    """

    index: int
    id: RequestId
    arrival_time: float
    prompt_length: int
    prediction: Prediction
    weight: int = 1
    level: ServiceLevel | None = None

    @property
    def output_length(self) -> int:
        """The output length, where the knowledge model tells it exactly.

        Raises
        ------
        KnowledgeError
            The prediction is an interval.
        """
        if not self.prediction.is_exact:
            raise KnowledgeError(
                f"request {self.id!r}: the output length is only known to lie in "
                f"[{self.prediction.lower}, {self.prediction.upper}]"
            )
        return self.prediction.point

    @property
    def volume(self) -> int:
        """Token-rounds that it is to hold, s o + o (o + 1) / 2 for its longest predicted output."""
        output = self.prediction.upper
        return self.prompt_length * output + output * (output + 1) // 2

    @property
    def deadline(self) -> float:
        """Latest completion on time, on the clock, for the point of its prediction; or infinite.

        Raises
        ------
        InvalidValueError
            The run has no service level.
        """
        output = np.array([self.prediction.point])
        return self.arrival_time + float(limits_of(self._known_level, 1).latest(output)[0])

    @property
    def first_token_deadline(self) -> float:
        """Latest first token on time, on the clock; infinite without a limit.

        Raises
        ------
        InvalidValueError
            The run has no service level.
        """
        limit = self._known_level.first_token
        return np.inf if limit is None else self.arrival_time + limit

    @property
    def _known_level(self) -> ServiceLevel:
        if self.level is None:
            reason = "is not known: the policy needs a service level, as level=... or --slo gives"
            raise InvalidValueError(f"request {self.id!r}", "deadline", None, reason)
        return self.level


class Meters:
    """The machine's own counters, which `State` shows.

    ``frozen_rounds`` counts the rounds in which the batch was held but for a few requests: those
    few are corrected one by one, which is cheaper than to note the hold of all others.
    """

    __slots__ = ("frozen_rounds", "memory", "round_index", "time", "waiting_count")

    def __init__(self) -> None:
        self.round_index = 0
        self.time: float = 0
        self.memory = 0
        self.waiting_count = 0
        self.frozen_rounds = 0


class RunningRequest:
    """A request in the batch, as a policy sees it.

    Attributes
    ----------
    request : VisibleRequest
        The visible request.
    start_round
        Decision epoch at which the current attempt began.
    tokens_kept : int
        Output tokens that earlier attempts left it with (see `Decision.preempt`).
    prompt_left
        Prompt tokens still to process before it can advance; tokens kept count as prompt. 0 once it
        has advanced.
    """

    __slots__ = (
        "_held_beyond_frozen",
        "_meters",
        "prompt_left",
        "request",
        "start_round",
        "tokens_kept",
    )

    def __init__(self, request: VisibleRequest, meters: Meters, tokens_kept: int = 0) -> None:
        self.request = request
        self.start_round = meters.round_index
        self.tokens_kept = tokens_kept
        self.prompt_left = request.prompt_length + tokens_kept
        self._meters = meters
        self._held_beyond_frozen = -meters.frozen_rounds

    @property
    def rounds_held(self) -> int:
        """Rounds of this attempt in which it kept its memory without advancing."""
        return self._held_beyond_frozen + self._meters.frozen_rounds

    def count_held(self, rounds: int) -> None:
        """Note rounds held beyond the frozen ones; negative for frozen rounds it advanced in."""
        self._held_beyond_frozen += rounds

    def rounds_run(self, now: int) -> int:
        """Rounds of work it has behind it by decision epoch ``now``.

        Those in which the current attempt advanced, and one for each token kept.
        """
        return now - self.start_round - self.rounds_held + self.tokens_kept

    def output_tokens(self, service_model: ServiceModel, now: int) -> int:
        """Output tokens it would keep if it were preempted at decision epoch ``now``."""
        # Right after a restart the service model's prefill round is still ahead.
        return max(self.tokens_kept, service_model.tokens_generated(self.rounds_run(now)))


class State:
    """The machine at a decision epoch, read-only for policies.

    Attributes
    ----------
    round_index : int
        Rounds run so far; the decision is about round ``round_index + 1``.
    time : float
        The clock: equal to ``round_index`` in the round model, seconds otherwise.
    memory_limit : int
        Capacity M, tokens.
    running : Mapping[int, RunningRequest]
        Requests in the batch by index, in order of admission.
    waiting_count : int
        Requests that have arrived and are not running.
    memory : int
        Tokens the running requests held in the last round they advanced or were held; a request
        whose prompt is processed in chunks holds `ServiceModel.base` of all of it.
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
    """Actions of a policy at a decision epoch.

    Attributes
    ----------
    start : Sequence[int]
        Indices of waiting requests to put into the batch.
    evict : Sequence[int]
        Indices of running requests to send back to the queue, all progress lost.
    hold : Sequence[int]
        Indices of running requests that keep their memory but do not advance.
    prefill : Mapping[int, int]
        Prompt tokens to process in each of the next rounds, by index, for running requests that
        have not advanced yet (`RunningRequest.prompt_left` > 0). Those not named process all that
        is left, and advance. An allotment of less is a chunk: the request holds the memory of its
        whole prompt, emits nothing and does not advance, until a later decision allots all that is
        left. The machine stops, at the latest, where what is left is one allotment.
    preempt : Sequence[int]
        Indices of running requests to send back to the queue whose output tokens are kept: their
        memory is freed, and the next attempt processes prompt and kept tokens as its prompt, then
        goes on with the next token.
    reuse : Mapping[int, int]
        Of requests to start, by index: tokens that the last attempt, which was preempted, stored
        and that are still there. They are not processed again. Only for policies that count
        memory themselves (`Policy.counts_memory`).
    wake : int or None
        Round at which to be asked again even if nothing happens until then; None waits for the next
        arrival or completion, or for the round before memory would overflow. In continuous time
        rounds pass only while something advances: with an idle or wholly held machine ``wake`` has
        no effect, and with no arrival to come the run ends as ``"stalled"``.
    """

    start: Sequence[int] = ()
    evict: Sequence[int] = ()
    hold: Sequence[int] = ()
    wake: int | None = None
    prefill: Mapping[int, int] = field(default_factory=dict)
    preempt: Sequence[int] = ()
    reuse: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setup:
    """Facts that a policy gets before a run.

    Attributes
    ----------
    memory_limit : int
        Capacity in tokens: M, or what stands for it where memory is counted in blocks and the
        policy counts tokens.
    service_model : ServiceModel
        How many rounds a request takes and what it is to be reckoned with in each.
    rng : numpy.random.Generator
        The policy's own random stream. Its use raises a `PolicyError` unless the policy is
        `Policy.randomized`.
    memory_rule : MemoryRule
        How memory is counted, for policies that count it themselves.
    batch_time : BatchTime or None, default None
        Seconds of each round, which a server may have measured; None in the round model.
    replicas : int, default 1
        Machines of the fleet, for routers.
    """

    memory_limit: int
    service_model: ServiceModel
    rng: np.random.Generator
    memory_rule: MemoryRule = TOKENS
    batch_time: BatchTime | None = None
    replicas: int = 1


class Policy(ABC):
    """An online scheduling policy.

    The simulator calls `reset` once, then at each decision epoch, in this order: `complete` for
    requests that finished, `arrive` for requests that appeared or were sent back, `decide`. The
    epochs are: every arrival, every completion, the epoch before memory would overflow, and the
    round named by `Decision.wake`.

    Attributes
    ----------
    name : ClassVar[str]
        The registered name, set by `register_policy`; the class's name otherwise.
    randomized : ClassVar[bool]
        Whether the policy draws from `Setup.rng`, which it may not otherwise. Experiments run a
        randomized policy once for each policy seed, every other policy with the first seed only.
    pauses : ClassVar[bool]
        Whether it may hold a running request, process a prompt in chunks, or preempt a request that
        keeps its tokens. Holding and chunks gain nothing: `Run.schedule` is a schedule without
        pauses that has the same completions. Only preemption can do better.
    preempts : bool
        Whether it may preempt requests that keep their tokens. Its ratios in rounds are then to the
        preemptive optimum on every instance. A policy that does not declare it, and preempts on
        some instance of a table, is compared in the same way in that table.
    reads_deadlines : bool
        Whether it needs a service level. Such a policy is none of "all policies" without one.
    evicts : bool
        Whether it evicts requests, all their tokens lost, although it is told exact output lengths
        and keeps its own parameters' promises. Such a policy cannot lead an engine, which has sent
        the tokens to the client.
    counts_memory : ClassVar[bool]
        Whether the policy itself counts memory by `Setup.memory_rule`, as engines do. It then sees
        the full memory limit, and the tokens stored as ``state.memory``; a step in which nothing
        runs takes a round, or no time in continuous time. Other policies plan with
        `ServiceModel.base`, which is never below what the rule counts.
    always_ends : ClassVar[bool]
        Whether every run is known to end, however long nothing completes. The simulator takes such
        a policy to be caught in a loop only where it decides without end in one round.
    should_stop : Callable[[], bool] or None
        Set by the simulator; a decision that takes long may ask it and raise
        `DecisionStoppedError`.
    """

    name: ClassVar[str]
    randomized: ClassVar[bool] = False
    pauses: ClassVar[bool] = False
    preempts: bool = False
    reads_deadlines: bool = False
    evicts: bool = False
    counts_memory: ClassVar[bool] = False
    always_ends: ClassVar[bool] = False
    should_stop: Callable[[], bool] | None = None

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
        """Tell whether to ask again when nothing advances and nothing more will arrive.

        A policy that waits for more requests would leave the end of a finite trace unserved. Here
        it may drop that rule; `Run.drain_round` records since when.
        """
        return False

    def memory_of_past(self) -> Any:
        """Whatever the next decisions depend on besides queue and batch, hashable.

        Two epochs with equal queue, batch and memory of the past lead to the same future, which
        is how an endless loop of evictions is recognised. None means: cannot be told.
        """
        return None


class UndeclaredGenerator(np.random.Generator):
    """Generator of a policy or router that is not ``randomized``: its use raises a `PolicyError`.

    Runs of such a policy count as equal for all seeds, so that only one is made.
    """

    def __init__(self, name: str, kind: str = "policy") -> None:
        super().__init__(np.random.PCG64(0))
        self._owner = f"{kind} {name!r}"
        self._made_of = name, kind

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattribute__(name)
        raise PolicyError(
            f"{self._owner} draws from Setup.rng and does not say so: "
            "write randomized = True in its class"
        )

    def __repr__(self) -> str:
        return f"UndeclaredGenerator{self._made_of}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of


PolicyClass = TypeVar("PolicyClass", bound=type[Policy])

_POLICIES: Registry[Callable[..., Policy]] = Registry("policy")


def register_policy(name: str) -> Callable[[PolicyClass], PolicyClass]:
    """Class decorator: register the policy by name, for ``make_policy(name, **params)``.

    A class of the same module and qualified name, such as that of a notebook's cell run again,
    takes the place of the one before, with a warning; so does what an edited cell or file calls
    otherwise.

    Raises
    ------
    ValueError
        Another class has the name.
    """

    def register(policy: PolicyClass) -> PolicyClass:
        _POLICIES.add(name, policy)
        policy.name = name
        return policy

    return register


def policy_names() -> list[str]:
    """Return the registered policy names, sorted."""
    return _POLICIES.names()


def policy_class(name: str) -> Callable[..., Policy]:
    """Return the class registered by a name.

    Raises
    ------
    UnknownNameError
        No such policy.
    """
    return _POLICIES[name]


def policy_parameters(name: str) -> dict[str, inspect.Parameter]:
    """Return the parameters that ``make_policy(name, ...)`` accepts.

    Raises
    ------
    UnknownNameError
        No such policy.
    """
    return named_parameters(_POLICIES[name])


def named_parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class or function that can be given by name."""
    return {
        key: parameter
        for key, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def is_own(policy: Callable[..., Any]) -> bool:
    """Tell whether it is user-defined rather than from this package."""
    return policy.__module__.partition(".")[0] != __name__.partition(".")[0]


def own_policy(name: str) -> Callable[..., Policy] | None:
    """Return the user-defined class of this name; None for a policy of this package.

    Raises
    ------
    UnknownNameError
        No such policy.
    """
    policy = _POLICIES[name]
    return policy if is_own(policy) else None
