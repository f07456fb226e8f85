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
    peak : int, default 0
        Tokens that it holds in its last round by the upper end of its prediction, in whole blocks;
        at most what the machine has.
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


class RunningRequest:
    """A request in the batch, as a policy sees it.

    Attributes
    ----------
    request : VisibleRequest
        The visible request.
    start_round : int
        Decision epoch at which the current attempt began.
    tokens_kept : int
        Output tokens that earlier attempts left it with (see `Decision.preempt`).
    prompt_left : int
        Prompt tokens still to process before it can advance; tokens kept count as prompt. 0 once it
        has advanced.
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
        """Return the rounds of work it has behind it by decision epoch ``now``.

        Those in which the current attempt advanced, and one for each token kept.
        """
        return now - self.start_round - self.rounds_held + self.tokens_kept

    @property
    def tokens(self) -> int:
        """Prompt tokens, and rounds in which it advanced, less those that emit no token."""
        batch = self._batch
        run = self.rounds_run(batch.round_index)
        return int(self.request.prompt_length + run - batch.prefill_rounds)

    @property
    def output_tokens(self) -> int:
        """Output tokens it would keep if it were preempted now."""
        # Right after a restart the round of its prompt is still ahead.
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
        Requests in the queue by index, in the order in which they joined it: new ones by arrival,
        those evicted or preempted at the end, as the decision names them.
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
        """Rounds run so far; the decision is about round ``round_index + 1``."""
        return self._batch.round_index  # type: ignore[no-any-return]

    @property
    def time(self) -> float:
        """The clock: equal to ``round_index`` in the round model, seconds otherwise."""
        return self._batch.time  # type: ignore[no-any-return]

    @property
    def memory(self) -> int:
        """Tokens stored by the running requests; a whole block counts with `free` alone."""
        return int(self._batch.stored())

    @property
    def tokens(self) -> int:
        """Sum of `RunningRequest.tokens` over the batch."""
        return self._batch.tokens  # type: ignore[no-any-return]

    @property
    def free(self) -> int:
        """Tokens of free blocks in the next round if the whole batch advances and none starts.

        Below 0 where memory would overflow.
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
        and that are still there. They are not processed again.
    wake : float or None
        Round at which to be asked again even if nothing happens until then. Infinity waits for the
        next arrival or completion, or for the round before memory would overflow. None asks every
        round as long as a request waits, or is held, or has part of its prompt to process;
        otherwise nothing can change before the next arrival or completion. A machine that is left
        idle waits for the next arrival, or in the round model for the round named. In continuous
        time no rounds pass on it; the present round asks again at once.
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
        The policy's own random stream. A draw raises a `PolicyError` unless the policy is
        `Policy.randomized`.
    memory_rule : MemoryRule, default TOKENS
        How memory is counted; see `TokenCount` for policies that count tokens.
    batch_time : BatchTime or None, default None
        Seconds of each round, which a server may have measured; None in the round model.
    replicas : int, default 1
        Machines of the fleet, for routers.
    prefill_rounds : int, default 0
        Rounds of each request that process its prompt and emit no token.
    """

    memory_limit: int
    rng: np.random.Generator
    memory_rule: MemoryRule = TOKENS
    batch_time: BatchTime | None = None
    replicas: int = 1
    prefill_rounds: int = 0


class Named(ABC):
    """A class of the name that it is registered by, its own unless it is."""

    name: ClassVar[str]
    randomized: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__


class Policy(Named):
    """An online scheduling policy.

    The simulator calls `reset` once, then at each decision epoch, in this order: `complete` for
    requests that finished, `arrive` for requests that appeared or were sent back, `decide`. The
    epochs are: every arrival, every completion, the epoch before memory would overflow, and the
    round named by `Decision.wake`, by default the next.

    Holding requests and cutting prompts gain nothing: `Run.schedule` is a schedule without pauses
    that has the same completions. Only preemption can do better.

    Attributes
    ----------
    name : ClassVar[str]
        The registered name, set by `register_policy`; the class's name otherwise.
    randomized : ClassVar[bool]
        Whether the policy draws from `Setup.rng`, which it may not otherwise. Experiments run a
        randomized policy once for each policy seed, every other policy with the first seed only.
    preempts : bool
        Whether it may preempt requests that keep their tokens. Its ratios in rounds are then to the
        preemptive optimum on every instance. A policy that does not declare it, and preempts on
        some instance of a table, is compared in the same way in that table.
    reads_deadlines : bool
        Whether it needs a service level. Such a policy is none of "all policies" without one.
    should_stop : Callable[[], bool] or None
        Set by the simulator; a decision that takes long may ask it and raise
        `DecisionStoppedError`.
    count : TokenCount or None
        Set in `reset` by a policy that plans in tokens: it is also asked before these exceed their
        limit.
    """

    preempts: bool = False
    reads_deadlines: bool = False
    should_stop: Callable[[], bool] | None = None
    # A `TokenCount`, which is made of the names below.
    count: Any = None

    def reset(self, setup: Setup) -> None:
        """Forget everything and prepare for a run."""

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Requests joined ``state.waiting``: new ones, or evicted ones coming back."""

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


class _NoDraws:
    """Random stream of a policy or router that does not declare to be ``randomized``.

    Runs of such a policy count as equal for all seeds, so that only one is made. Every draw raises
    a `PolicyError`.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        # Copies look for special methods.
        if name.startswith("__"):
            raise AttributeError(name)
        reason = "draws from Setup.rng and does not say so: write randomized = True in its class"
        raise PolicyError(f"{self._owner} {reason}")


def random_stream(made: Named, kind: str, seed: Sequence[int]) -> Any:
    """Return the stream of a policy or router: it draws, or raises an error where it may not."""
    return np.random.default_rng(seed) if made.randomized else _NoDraws(f"{kind} {made.name!r}")


RegisteredClass = TypeVar("RegisteredClass", bound=type[Any])

POLICIES: Registry[Callable[..., Policy]] = Registry("policy")


def registers(registry: Registry[Any], name: str) -> Callable[[RegisteredClass], RegisteredClass]:
    """Class decorator: keep a class in a registry, and its name there in the class."""

    def register(made: RegisteredClass) -> RegisteredClass:
        registry.add(name, made)
        made.name = name
        return made

    return register


def register_policy(name: str) -> Callable[[RegisteredClass], RegisteredClass]:
    """Class decorator: register the policy by name, for ``make_policy(name, **params)``.

    A class of the same module and qualified name, such as that of a notebook's cell run again,
    takes the place of the one before, with a warning; so does what an edited cell or file calls
    otherwise.

    Raises
    ------
    ValueError
        Another class has the name.
    """
    return registers(POLICIES, name)


def policy_names() -> list[str]:
    """Return the registered policy names, sorted."""
    return POLICIES.names()


def named_parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class or function that can be given by name."""
    return {
        key: parameter
        for key, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def is_own(policy: Callable[..., Any]) -> bool:
    """Return whether it is user-defined rather than from this package."""
    return policy.__module__.partition(".")[0] != __name__.partition(".")[0]
