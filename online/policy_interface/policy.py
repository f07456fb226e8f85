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

from .predictions import Prediction


class PolicyError(RuntimeError):
    """A policy made an invalid decision. The message names policy, round and request."""


class DecisionStoppedError(RuntimeError):
    """A policy gave up a decision because ``should_stop`` returned True. This ends the run."""


class KnowledgeError(RuntimeError):
    """A policy read an output length although its prediction is an interval of lengths."""


@dataclass(frozen=True, slots=True)
class VisibleRequest:
    """Facts that a policy may know of a request; the true output length is not among them.

    Attributes
    ----------
    index : int
        Order of appearance, from 0; decisions name requests by it.
    id : RequestId
        The request's label in the instance.
    arrival_time : float
        Rounds, or seconds in continuous time.
    prompt_length : int
        Tokens.
    prediction : Prediction
        Prediction of the output length.
    weight : int, default 1
        Weight of its latency in the total latency.
    level : ServiceLevel or None, default None
        Limits on its latencies, if the run has a service level.
    peak : int, default 0
        Memory in its last round, in tokens of whole blocks, if its output length is the upper end
        of the prediction. At most the memory of the machine.
    """

    index: int
    id: RequestId
    arrival_time: float
    prompt_length: int
    prediction: Prediction
    weight: int = 1
    level: ServiceLevel | None = None
    peak: int = 0

    @property
    def output_length(self) -> int:
        """The output length in tokens, if the prediction is a single length.

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
        """Predicted tokens held, summed over rounds: s o + o (o + 1) / 2.

        s is the prompt length, o the upper end of the prediction.
        """
        output = self.prediction.upper
        return self.prompt_length * output + output * (output + 1) // 2

    @property
    def deadline(self) -> float:
        """Latest completion time that meets the service level, on the clock of the run.

        Infinity if the level has no limit. The output length is assumed to be the point (the best
        guess) of the prediction.

        Raises
        ------
        InvalidValueError
            The run has no service level.
        """
        output = np.array([self.prediction.point])
        return self.arrival_time + float(limits_of(self._known_level, 1).latest(output)[0])

    @property
    def first_token_deadline(self) -> float:
        """Latest time of the first token that meets the service level, on the clock of the run.

        Infinity if the level has no limit.

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


class RunningRequest:
    """A request in the batch, as a policy sees it.

    An attempt is the time from a start to the completion, eviction or preemption.

    Attributes
    ----------
    request : VisibleRequest
        What the policy knows of the request.
    start_round : int
        Decision epoch at which the current attempt began.
    tokens_kept : int
        Output tokens kept from preempted attempts (see `Decision.preempt`).
    prompt_left : int
        Prompt tokens still to process before the request can advance (emit a token). Output tokens
        kept from preempted attempts count as prompt tokens. 0 once it has advanced.
    rounds_held : int
        Rounds of this attempt in which it kept its memory without advancing.
    """

    __slots__ = ("_batch", "prompt_left", "request", "rounds_held", "start_round", "tokens_kept")

    def __init__(self, request: VisibleRequest, batch: Any, tokens_kept: int = 0) -> None:
        self.request = request
        self.start_round: int = batch.round_index
        self.tokens_kept = tokens_kept
        self.prompt_left = request.prompt_length + tokens_kept
        self.rounds_held = 0
        self._batch = batch

    def rounds_run(self, now: int) -> int:
        """Return the rounds of progress that the request has made by decision epoch ``now``.

        These are the rounds in which the current attempt advanced, and one for each output token
        kept from earlier attempts.
        """
        return now - self.start_round - self.rounds_held + self.tokens_kept

    @property
    def tokens(self) -> int:
        """Prompt tokens plus the rounds of progress, not counting rounds that emit no token."""
        batch = self._batch
        run = self.rounds_run(batch.round_index)
        return int(self.request.prompt_length + run - batch.prefill_rounds)

    @property
    def output_tokens(self) -> int:
        """Output tokens that the request would keep if it were preempted now."""
        # While an attempt runs its prefill rounds, `tokens` does not yet include all kept tokens.
        return max(self.tokens_kept, self.tokens - self.request.prompt_length)


class State:
    """The machine at a decision epoch, read-only for policies.

    Attributes
    ----------
    memory_limit : int
        Capacity M, tokens.
    running : Mapping[int, RunningRequest]
        Requests in the batch by index, in order of admission.
    waiting : Mapping[int, VisibleRequest]
        Requests in the queue by index, in the order in which they joined it. Evicted and preempted
        requests join at the end, in the order in which the decision names them.
    """

    __slots__ = ("_batch", "memory_limit", "running", "waiting")

    def __init__(self, batch: Any, memory_limit: int) -> None:
        self._batch = batch
        self.memory_limit = memory_limit
        running: dict[int, RunningRequest] = batch.running
        waiting: dict[int, VisibleRequest] = batch.waiting
        self.running, self.waiting = MappingProxyType(running), MappingProxyType(waiting)

    @property
    def round_index(self) -> int:
        """Number of rounds run so far; the decision is for round ``round_index + 1``."""
        return self._batch.round_index  # type: ignore[no-any-return]

    @property
    def time(self) -> float:
        """The clock: ``round_index`` in the round model, seconds in continuous time."""
        return self._batch.time  # type: ignore[no-any-return]

    @property
    def memory(self) -> int:
        """Tokens stored by the running requests. Unused places in their blocks do not count."""
        return int(self._batch.stored())

    @property
    def tokens(self) -> int:
        """Sum of `RunningRequest.tokens` over the batch."""
        return self._batch.tokens  # type: ignore[no-any-return]

    @property
    def free(self) -> int:
        """Tokens of free blocks in the next round if the whole batch advances and none starts.

        A request advances if it emits a token. The result is negative if memory would overflow.
        """
        batch = self._batch
        return int(batch.rule.limit(self.memory_limit) - batch.next_memory())


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions of a policy at a decision epoch.

    Attributes
    ----------
    start : Sequence[int]
        Indices of waiting requests to put into the batch.
    evict : Sequence[int]
        Indices of running requests to send back to the queue. They lose all progress.
    hold : Sequence[int]
        Indices of running requests that keep their memory but do not advance.
    prefill : Mapping[int, int]
        Prompt tokens to process in each of the next rounds, by index, for running requests that
        have not advanced yet (`RunningRequest.prompt_left` > 0). A request not named here processes
        its whole remaining prompt and advances. A number below the remaining prompt is a chunk: the
        request holds the memory of its whole prompt, emits nothing and does not advance. This lasts
        until a later decision gives it the rest. The policy is asked again, at the latest, when the
        remaining prompt is no more than this number.
    preempt : Sequence[int]
        Indices of running requests to send back to the queue whose output tokens are kept. Their
        memory is freed. The next attempt processes prompt and kept tokens as its prompt, then goes
        on with the next token.
    reuse : Mapping[int, int]
        For requests in ``start``, by index: tokens of their preempted attempt that are still in
        memory. These tokens are not processed again.
    wake : float or None
        Round of the next decision even if no request arrives or completes before it. Infinity waits
        for the next arrival or completion, or for the round before memory would overflow. None asks
        every round while a request waits, is held, or has part of its prompt to process; otherwise
        it acts like infinity. An idle machine waits for the next arrival, or in the round model for
        the round ``wake``. In continuous time an idle machine runs no rounds. If ``wake`` is then
        the present round, the policy is asked again at once.
    """

    start: Sequence[int] = ()
    evict: Sequence[int] = ()
    hold: Sequence[int] = ()
    wake: float | None = None
    prefill: Mapping[int, int] = field(default_factory=dict)
    preempt: Sequence[int] = ()
    reuse: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setup:
    """Facts that a policy gets before a run.

    Attributes
    ----------
    memory_limit : int
        Capacity M, tokens.
    rng : numpy.random.Generator
        Random stream of this policy alone. A draw raises a `PolicyError` unless the policy is
        `Policy.randomized`.
    memory_rule : MemoryRule, default TOKENS
        How memory is counted, for instance in blocks. Policies that plan in tokens may use
        `TokenCount`.
    batch_time : BatchTime or None, default None
        Model of the seconds that a round takes, given its batch. None in the round model.
    replicas : int, default 1
        Number of machines of the fleet, for routers.
    prefill_rounds : int, default 0
        Rounds that each request spends on its prompt without emitting a token.
    """

    memory_limit: int
    rng: np.random.Generator
    memory_rule: MemoryRule = TOKENS
    batch_time: BatchTime | None = None
    replicas: int = 1
    prefill_rounds: int = 0


class Named(ABC):
    """Base class of policies and routers, with the class attribute ``name``.

    It is the registered name, or the name of the class if it is not registered.
    """

    name: ClassVar[str]
    randomized: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__


class Policy(Named):
    """An online scheduling policy.

    The simulator calls `reset` once. Then it calls three methods at each decision epoch: `complete`
    for finished requests, `arrive` for new, evicted and preempted requests, and `decide`. Decision
    epochs are every arrival, every completion, the last epoch before memory would overflow, and the
    round `Decision.wake`.

    Holding requests and cutting prompts cannot lower latencies: `Run.schedule` is a schedule
    without pauses that has the same completions. Only preemption can.

    Attributes
    ----------
    name : ClassVar[str]
        The registered name, set by `register_policy`; the class's name otherwise.
    randomized : ClassVar[bool]
        Whether the policy draws from `Setup.rng`; if False, a draw is an error. Experiments run a
        randomized policy once for each policy seed, every other policy with the first seed only.
    preempts : bool
        Whether the policy may preempt requests, which then keep their output tokens. If True, its
        ratios in the round model compare with the preemptive optimum on every instance. If False,
        only on instances on which the policy preempts.
    reads_deadlines : bool
        Whether the policy needs a service level. If a run has none, a choice of all policies leaves
        this policy out.
    should_stop : Callable[[], bool] or None
        Function set by the simulator. It returns True when the run is to stop. A long decision may
        call it and raise `DecisionStoppedError`.
    count : TokenCount or None
        Set in `reset` by a policy that counts memory with a `TokenCount`. The simulator then also
        asks the policy for a decision before this count would exceed its limit.
    """

    preempts: bool = False
    reads_deadlines: bool = False
    should_stop: Callable[[], bool] | None = None
    # A `TokenCount` or None. The type is Any because the module of `TokenCount` imports this one.
    count: Any = None

    def reset(self, setup: Setup) -> None:
        """Clear the state of earlier runs and prepare for a new run."""

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Note requests that joined ``state.waiting``: new, evicted or preempted ones."""

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Note requests that finished; they are no longer in ``state.running``."""

    @abstractmethod
    def decide(self, state: State) -> Decision:
        """Decide on the next round: the requests to start, evict, preempt and hold, for instance.

        The decision may also set the next decision epoch (`Decision.wake`).
        """

    def drain(self, state: State) -> bool:
        """Return whether the policy wants to decide again after it has stopped waiting.

        This is called if no request advances and none will arrive. A policy that waits for more
        requests would then leave the last requests of a finite trace unserved. It may stop waiting
        and return True. `Run.drain_round` records the present round.
        """
        return False


class _NoDraws:
    """Random stream of a policy or router whose ``randomized`` is False: every draw is an error.

    All seeds are assumed to give the same run of such a policy, so only one run is made. A draw
    would make this wrong, so it raises a `PolicyError`.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        # Copying and pickling look up special methods. These must count as missing here, which
        # needs an AttributeError and not a PolicyError.
        if name.startswith("__"):
            raise AttributeError(name)
        reason = "draws from Setup.rng and does not say so: write randomized = True in its class"
        raise PolicyError(f"{self._owner} {reason}")


def random_stream(made: Named, kind: str, seed: Sequence[int]) -> Any:
    """Return the random stream of the policy or router ``made``.

    If its attribute ``randomized`` is False, every draw from the stream is an error. ``kind`` is
    "policy" or "router", for the message.
    """
    return np.random.default_rng(seed) if made.randomized else _NoDraws(f"{kind} {made.name!r}")


RegisteredClass = TypeVar("RegisteredClass", bound=type[Any])

POLICIES: Registry[Callable[..., Policy]] = Registry("policy")


def registers(registry: Registry[Any], name: str) -> Callable[[RegisteredClass], RegisteredClass]:
    """Return a class decorator that adds a class to a registry and sets its ``name``."""

    def register(made: RegisteredClass) -> RegisteredClass:
        registry.add(name, made)
        made.name = name
        return made

    return register


def register_policy(name: str) -> Callable[[RegisteredClass], RegisteredClass]:
    """Return a class decorator that registers a policy for ``make_policy(name, **params)``.

    If the same module registers the name again, as an edited file or a notebook cell that runs
    again does, the new class replaces the earlier one, with a warning.

    Raises
    ------
    ValueError
        A class of another module has the name.
    """
    return registers(POLICIES, name)


def policy_names() -> list[str]:
    """Return the registered policy names, sorted."""
    return POLICIES.names()


def named_parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return those parameters of a class or function that a caller can pass by name."""
    return {
        key: parameter
        for key, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def is_own(policy: Callable[..., Any]) -> bool:
    """Return whether the module that defines a policy is outside this package."""
    return policy.__module__.partition(".")[0] != __name__.partition(".")[0]
