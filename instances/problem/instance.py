"""A scheduling instance: requests and the memory that they share."""

from __future__ import annotations

import hashlib
import inspect
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, RequestColumns, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import LARGEST_TOKEN_COUNT, as_integer, as_name, set_fields

from .batches import BatchTime
from .memory_rule import TOKENS, MemoryRule, as_memory_rule
from .request import Request, RequestId, check_count, check_distinct

ALLOW_ZERO_PROMPT_LENGTH = "allow_zero_prompt_length"
"""Metadata key. The value True allows requests with empty prompts, which some theorems need."""

MOST_REPLICAS = 100_000
"""Largest number of replicas of an instance or a workload."""


class Problem:
    """Base class of `Instance` and `Workload`: requests, and the machines that serve them.

    Objects are immutable; `replaced` makes a changed copy.

    Attributes
    ----------
    unit : str
        Unit of time: ``"rounds"`` of an instance, ``"s"`` of a workload.
    batch_time : BatchTime or None
        Model of the seconds that a round takes; None for an instance, where time counts rounds.
    ids : tuple[RequestId, ...]
        Labels of the requests, in their order.
    arrival_times, prompt_lengths, output_lengths : array, shape (n,)
        Arrivals a_i in rounds or seconds, lengths s_i and o_i in tokens. Read-only.
    memory_limit, name, metadata, memory_rule, replicas
        As passed to the constructor.
    """

    unit: str
    batch_time: BatchTime | None = None
    ids: tuple[RequestId, ...]
    arrival_times: npt.NDArray[Any]
    prompt_lengths: IntArray
    output_lengths: IntArray
    memory_limit: int
    name: str | None
    metadata: dict[str, Any]
    memory_rule: MemoryRule
    replicas: int

    def _share(
        self,
        memory_limit: int,
        name: str | None,
        metadata: Mapping[str, Any] | None,
        memory_rule: MemoryRule,
        replicas: int,
        **columns: Any,
    ) -> None:
        """Check and set the attributes that instances and workloads have in common."""
        owner, most = type(self).__name__.lower(), LARGEST_TOKEN_COUNT
        set_fields(
            self,
            memory_limit=as_integer(memory_limit, owner, "memory_limit", minimum=1, maximum=most),
            name=None if name is None else as_name(name, owner, "name"),
            metadata=_metadata(metadata, owner),
            memory_rule=as_memory_rule(memory_rule, owner),
            replicas=as_integer(replicas, owner, "replicas", minimum=1, maximum=MOST_REPLICAS),
            **columns,
        )
        if not self.ids:
            raise InvalidValueError(owner, "requests", [], "is empty: at least one is needed")
        check_distinct(self.ids)
        rule = f" with {memory_rule.told}" if memory_rule.told else ""
        # Empty prompts are refused if the memory rule has emitted_token="next": such a request
        # would store no token at all when its first token is computed.
        zero = self.metadata.get(ALLOW_ZERO_PROMPT_LENGTH) is True and not memory_rule.unstored
        for place in np.flatnonzero(self.prompt_lengths < int(not zero)).tolist():
            reason = f"is below 1{rule}"
            raise InvalidValueError(f"request {self.ids[place]!r}", "prompt_length", 0, reason)
        peaks = self.prompt_lengths + self.output_lengths
        # ``usable`` is M rounded down to whole blocks, in tokens. A request with a larger peak can
        # never run.
        usable = memory_rule.limit(self.memory_limit)
        for place in np.flatnonzero(peaks - memory_rule.unstored > usable).tolist():
            reason = f"exceeds memory_limit = {memory_limit}{rule}: the request can never run"
            peak, owner = int(peaks[place]), f"request {self.ids[place]!r}"
            raise InvalidValueError(owner, "prompt_length + output_length", peak, reason)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name!r} cannot be changed: make a copy with replaced({name}=...)")

    def _given(self) -> dict[str, Any]:
        """Return the arguments of the constructor by name, to make a copy."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __reduce__(self) -> tuple[Any, ...]:
        # Objects are unpickled by a call of the constructor. Arrays unpickled directly would be
        # writable.
        return partial(type(self), **self._given()), ()

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        label = f"{self.name!r}, " if self.name else ""
        rule = f", {self.memory_rule.told}" if self.memory_rule != TOKENS else ""
        replicas = f", replicas={self.replicas}" if self.replicas > 1 else ""
        limit = f"memory_limit={self.memory_limit}{rule}{replicas}"
        return f"{type(self).__name__}({label}{len(self)} requests, {limit})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = ("digest", "batch_time", "ids", "name", "metadata")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """Content hash (SHA-256, hex) of the requests, the memory and the number of replicas.

        It depends on the requests in order (arrival, prompt length, output length), on the weights
        if some is not 1, on M, on the memory rule if it is not the default, and on the number of
        replicas if it is not 1. It does not depend on ids, name and metadata, which change neither
        the optimum nor a policy's run. It does not depend on the batch time either, although this
        changes both. `matches` compares the batch time too.
        """
        replicas = f"replicas:{self.replicas}" if self.replicas > 1 else ""
        head = f"{type(self).__name__.lower()}:1:{self.memory_limit}:{len(self)}:"
        tail = self.memory_rule.told + replicas
        return hashlib.sha256(head.encode() + self._content() + tail.encode()).hexdigest()

    def require_one_replica(self) -> None:
        """Raise an error if there are several replicas, for code that handles one machine only.

        Raises
        ------
        InvalidValueError
            There are several replicas.
        """
        if self.replicas > 1:
            reason = "is not 1: one machine is needed here, such as alone() of it"
            raise InvalidValueError(type(self).__name__, "replicas", self.replicas, reason)

    def matches(self, other: Problem) -> bool:
        """Return whether both problems have the same digest and batch time.

        A schedule of one is then a schedule of the other.
        """
        return (self.digest, self.batch_time) == (other.digest, other.batch_time)

    @property
    def order_of_arrival(self) -> IntArray:
        """Positions of the requests sorted by arrival time; ties keep the order of the requests."""
        return np.argsort(self.arrival_times, kind="stable")

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with some arguments of the constructor changed, such as ``replicas=2``."""
        return type(self)(**self._given() | changes)

    def renamed(self, name: str | None, metadata: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with another name, and with other metadata if not None."""
        return self.replaced(name=name, **({} if metadata is None else {"metadata": metadata}))

    def of(self, positions: Sequence[int] | IntArray, **changes: Any) -> Self:
        """Return a problem with only the requests at these positions. They keep their ids.

        ``changes`` are further arguments of the constructor, as in `replaced`.
        """
        raise NotImplementedError

    def alone(self, positions: Sequence[int] | IntArray | None = None) -> Self:
        """Return a problem on one machine, with the requests at these positions, in this order.

        None takes all requests.
        """
        return self.replaced(replicas=1) if positions is None else self.of(positions, replicas=1)

    def frame(self) -> Any:
        """Return a pandas DataFrame with one row per request.

        Columns are ``id``, ``arrival_time``, ``prompt_length``, ``output_length`` and, if some
        weight is not 1, ``weight``.
        """
        import pandas

        return pandas.DataFrame(self._columns())

    def _content(self) -> bytes:
        """Return the rows (a, s, o) in order, and any weights, as bytes for `digest`."""
        raise NotImplementedError

    def _columns(self) -> dict[str, Any]:
        lengths = {"prompt_length": self.prompt_lengths, "output_length": self.output_lengths}
        return {"id": list(self.ids), "arrival_time": self.arrival_times, **lengths}

    def _repr_html_(self) -> Any:
        return self.frame()._repr_html_()


class Instance(Problem):
    """Scheduling instance: requests with arrivals in rounds, and a KV-cache capacity ([J25]).

    Parameters
    ----------
    requests : Iterable[Request]
        At least one `Request`. A request without an id gets its position as id.
    memory_limit : int
        Capacity M in tokens, >= 1.
    name : str or None, default None
        A label for tables.
    metadata : Mapping[str, Any] or None, default None
        Any data that JSON can hold, stored with the instance. The key
        ``"allow_zero_prompt_length"`` set to True allows requests with s = 0.
    memory_rule : MemoryRule, default TOKENS
        How the memory of a request is counted: in tokens or in blocks.
    replicas : int, default 1
        Number K of identical machines, each with this memory. A request stays on one of them.

    Attributes
    ----------
    requests : tuple[Request, ...]
        The requests, all with ids.
    arrival_times, prompt_lengths, output_lengths, weights : int64 array, shape (n,)
        Arrivals a_i in rounds, lengths s_i and o_i in tokens, and weights w_i. Read-only.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        There are no requests, two ids are equal (0 and "0" count as equal, as in a CSV file), a
        prompt is empty, a request could never run because its memory exceeds M, the name has
        control characters, or a text cannot be encoded as UTF-8.

    Examples
    --------
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> len(instance), instance.total_output_length, instance[1].peak_memory
    (3, 6, 4)
    """

    unit = "rounds"
    requests: tuple[Request, ...]
    weights: IntArray

    def __init__(
        self,
        requests: Iterable[Request],
        memory_limit: int,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        memory_rule: MemoryRule = TOKENS,
        replicas: int = 1,
    ) -> None:
        labelled = _label(requests)
        rows = [(q.arrival_time, q.prompt_length, q.output_length, q.weight) for q in labelled]
        columns = map(read_only, np.array(rows, dtype=np.int64).reshape(-1, 4).T)
        arrivals, prompts, outputs, weights = columns
        self._share(
            *(memory_limit, name, metadata, memory_rule, replicas),
            requests=labelled,
            ids=tuple(request.id for request in labelled),
            arrival_times=arrivals,
            prompt_lengths=prompts,
            output_lengths=outputs,
            weights=weights,
        )

    @classmethod
    def from_arrays(  # noqa: PLR0913
        cls,
        prompt_lengths: Sequence[int] | IntArray,
        output_lengths: Sequence[int] | IntArray,
        arrival_times: Sequence[int] | IntArray | None = None,
        *,
        memory_limit: int,
        weights: Sequence[int] | IntArray | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        memory_rule: MemoryRule = TOKENS,
        replicas: int = 1,
    ) -> Instance:
        """Build an instance from arrays of equal length n, with one entry per request.

        Without arrival times all requests arrive at 0, and without weights all have weight 1.

        Raises
        ------
        InvalidValueError
            The arrays have different lengths, or `Instance` refuses the requests.
        InvalidTypeError
            An entry is not a whole number.
        """
        count = len(prompt_lengths)
        columns: dict[str, Any] = {
            "arrival_times": [0] * count if arrival_times is None else arrival_times,
            "prompt_lengths": prompt_lengths,
            "output_lengths": output_lengths,
            "weights": [1] * count if weights is None else weights,
        }
        for label, column in columns.items():
            check_count("instance", label, column, count)
        rows = zip(*columns.values(), strict=True)
        requests = [Request(a, s, o, index, w) for index, (a, s, o, w) in enumerate(rows)]
        return cls(
            requests, memory_limit, name, metadata, memory_rule=memory_rule, replicas=replicas
        )

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)

    def __getitem__(self, index: int) -> Request:
        return self.requests[index]

    @cached_property
    def is_weighted(self) -> bool:
        """True if some weight is not 1."""
        return bool(np.any(self.weights != 1))

    @cached_property
    def total_weight(self) -> int:
        """Sum of the weights w_i; the number of requests if all weights are 1."""
        return sum(self.weights.tolist())

    @cached_property
    def total_output_length(self) -> int:
        """Sum of (weight x output length), in rounds. No schedule has a lower total latency."""
        return sum(map(operator.mul, self.weights.tolist(), self.output_lengths.tolist()))

    @property
    def columns(self) -> RequestColumns:
        """Lengths, arrivals and M as `RequestColumns`, for code that counts memory in tokens.

        Raises
        ------
        InvalidValueError
            The instance has another memory rule than `TOKENS`, or several replicas.
        """
        self.require_tokens()
        return RequestColumns(
            self.prompt_lengths, self.output_lengths, self.arrival_times, self.memory_limit
        )

    @cached_property
    def peak_memories(self) -> IntArray:
        """Peak memory s_i + o_i of each request, in tokens, shape (n,), read-only."""
        return read_only(self.prompt_lengths + self.output_lengths)

    @cached_property
    def volumes(self) -> IntArray:
        """Memory of each request summed over its rounds, in token-rounds, shape (n,), read-only.

        It is s_i o_i + o_i (o_i + 1) / 2 for prompt length s_i and output length o_i.
        """
        outputs = self.output_lengths
        return read_only(self.prompt_lengths * outputs + outputs * (outputs + 1) // 2)

    def _content(self) -> bytes:
        rows = np.column_stack([self.arrival_times, self.prompt_lengths, self.output_lengths])
        weights = b"weights:" + self.weights.astype("<i8").tobytes() if self.is_weighted else b""
        return rows.astype("<i8").tobytes(order="C") + weights

    def _columns(self) -> dict[str, Any]:
        return super()._columns() | ({"weight": self.weights} if self.is_weighted else {})

    def require_tokens(self) -> None:
        """Raise an error unless memory is counted in tokens and there is one replica.

        `instances.problem.memory_translation` converts other instances to such instances. Their
        optimum is a lower or an upper bound on that of the original instance.

        Raises
        ------
        InvalidValueError
            There are several replicas, or the memory rule is not `TOKENS`.
        """
        self.require_one_replica()
        if self.memory_rule != TOKENS:
            reason = "is not counted in tokens: take relaxed() or restricted() of the instance"
            raise InvalidValueError("instance", "memory_rule", self.memory_rule.told, reason)

    def refuse_weights(self, reason: str) -> None:
        """Raise an error if some weight is not 1, for code that ignores weights.

        Raises
        ------
        InvalidValueError
            Some request has a weight other than 1; the message ends with ``reason``.
        """
        if self.is_weighted:
            heavy = max(self.requests, key=lambda request: request.weight)
            raise InvalidValueError(f"request {heavy.id!r}", "weight", heavy.weight, reason)

    def of(self, positions: Sequence[int] | IntArray, **changes: Any) -> Instance:
        """Return an instance with the requests at these positions, in this order, and their ids.

        ``changes`` are further arguments of the constructor, as in `replaced`.
        """
        return self.replaced(requests=[self.requests[place] for place in positions], **changes)


def _metadata(given: Mapping[str, Any] | None, owner: str) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidTypeError(owner, "metadata", given, "is not a mapping")
    details = deepcopy(dict(given or {}))
    try:
        json.dumps(details, ensure_ascii=False, default=str, skipkeys=True).encode()
    except UnicodeEncodeError:
        raise InvalidValueError(owner, "metadata", given, "has a lone surrogate") from None
    return details


def _label(requests: Iterable[Request]) -> tuple[Request, ...]:
    labelled: list[Request] = []
    for position, request in enumerate(requests):
        if not isinstance(request, Request):
            raise InvalidTypeError(f"request {position}", "request", request, "is not a Request")
        labelled.append(request if request.id is not None else replace(request, id=position))
    return tuple(labelled)
