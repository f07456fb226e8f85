"""A scheduling instance: requests and the memory they share."""

from __future__ import annotations

import hashlib
import inspect
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from instances.arrays import IntArray, RequestColumns, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.show import problem_html
from instances.validation import (
    LARGEST_TOKEN_COUNT,
    as_integer,
    as_name,
    set_fields,
)

from .batches import BatchTime
from .memory_rule import TOKENS, MemoryRule, as_memory_rule
from .request import Request, RequestId, check_distinct

ALLOW_ZERO_PROMPT_LENGTH = "allow_zero_prompt_length"
"""Metadata key: set to True where a theorem needs requests without a prompt (s = 0)."""


MOST_REPLICAS = 100_000
"""Replicas beyond which a fleet is refused."""


class Problem:
    """Base of an instance and a workload.

    Attributes
    ----------
    unit : str
        Unit of time.
    batch_time : BatchTime or None
        Seconds of a round; None of an instance, which counts rounds.
    """

    unit: str
    batch_time: BatchTime | None = None

    def __repr__(self: Any) -> str:
        label = f"{self.name!r}, " if self.name else ""
        rule = f", {self.memory_rule.told}" if self.memory_rule != TOKENS else ""
        replicas = f", replicas={self.replicas}" if self.replicas > 1 else ""
        kind, count = type(self).__name__, len(self)
        limit = f"memory_limit={self.memory_limit}{rule}{replicas}"
        return f"{kind}({label}{count} requests, {limit})"

    def __eq__(self: Any, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = ("digest", "batch_time", "ids", "name", "metadata")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self: Any) -> int:
        return hash(self.digest)

    def require_one_replica(self: Any) -> None:
        """Refuse a fleet where one machine is meant.

        Raises
        ------
        InvalidValueError
            There are several replicas.
        """
        if self.replicas > 1:
            reason = "is not 1: one machine is needed here, such as alone() of it"
            raise InvalidValueError(type(self).__name__, "replicas", self.replicas, reason)

    def matches(self: Any, other: Any) -> bool:
        """Tell whether the other has the same digest and batch time: schedules hold for both."""
        return (self.digest, self.batch_time) == (other.digest, other.batch_time)

    @property
    def order_of_arrival(self: Any) -> IntArray:
        """Positions of the requests by arrival time, ties in their order."""
        return np.argsort(self.arrival_times, kind="stable")

    def replaced(self, **changes: Any) -> Self:
        """A copy with other arguments of the constructor."""
        names = inspect.signature(type(self)).parameters
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def renamed(self, name: str | None, metadata: Mapping[str, Any] | None = None) -> Self:
        """A copy with another name, and other metadata where some is given."""
        return self.replaced(name=name, **({} if metadata is None else {"metadata": metadata}))

    def of(self, positions: Sequence[int] | IntArray, **changes: Any) -> Self:
        """The requests at these positions, with their ids."""
        raise NotImplementedError

    def alone(self, positions: Sequence[int] | IntArray | None = None) -> Self:
        """The requests at these positions, in this order, or all of them, on one machine."""
        return self.replaced(replicas=1) if positions is None else self.of(positions, replicas=1)

    def with_replicas(self, replicas: int) -> Self:
        """The same requests on another number of machines.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            No whole number, or below 1.
        """
        return self.replaced(replicas=replicas)

    def under(self, memory_rule: MemoryRule) -> Self:
        """The same requests and memory under another memory rule.

        Raises
        ------
        InvalidValueError
            A request that could never run under it.
        """
        return self.replaced(memory_rule=memory_rule)

    def frame(self) -> Any:
        """Return a pandas DataFrame with a row per request: id, arrival, lengths, any weights."""
        import pandas

        return pandas.DataFrame(self._columns())

    def _hashed(self: Any, kind: str, content: bytes) -> str:
        """Return the digest of columns with M, and with another memory rule and replicas if any."""
        replicas = f"replicas:{self.replicas}" if self.replicas > 1 else ""
        head = f"{kind}:1:{self.memory_limit}:{len(self)}:"
        tail = self.memory_rule.told + replicas
        return hashlib.sha256(head.encode() + content + tail.encode()).hexdigest()

    def _columns(self: Any) -> dict[str, Any]:
        lengths = {"prompt_length": self.prompt_lengths, "output_length": self.output_lengths}
        columns = {"id": list(self.ids), "arrival_time": self.arrival_times, **lengths}
        return columns | ({"weight": self.weights} if getattr(self, "is_weighted", False) else {})

    def _repr_html_(self) -> str:
        return problem_html(self)


@dataclass(frozen=True, eq=False, repr=False)
class Instance(Problem):
    """Requests with arrival times and lengths, and the KV-cache capacity ([J25] Section 2).

    Parameters
    ----------
    requests : Iterable[Request]
        At least one `Request`; those without an id take their position as id.
    memory_limit : int
        Capacity M in tokens, >= 1.
    name : str or None, default None
        A label for tables.
    metadata : Mapping[str, Any] or None, default None
        Anything JSON can hold that should travel with the instance. The key
        ``"allow_zero_prompt_length"`` set to True admits requests with s = 0.
    memory_rule : MemoryRule, default TOKENS
        How memory is counted.
    replicas : int, default 1
        Number K of identical machines, each with this memory. A request stays on one of them.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        An empty instance, a duplicate id (0 beside "0" too, which no CSV file tells apart), a
        prompt of length 0, a request that could never run (s + o > M, or what the memory rule
        makes of it), a name with control characters, or text that no file can hold.

    Examples
    --------
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> len(instance), instance.total_output_length, instance[1].peak_memory
    (3, 6, 4)
    """

    unit = "rounds"
    requests: tuple[Request, ...]
    memory_limit: int
    name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    memory_rule: MemoryRule = TOKENS
    replicas: int = 1

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
        limit = as_integer(
            memory_limit, "instance", "memory_limit", minimum=1, maximum=LARGEST_TOKEN_COUNT
        )
        details = as_metadata(metadata, "instance")
        labelled = _label(requests)
        rule = as_memory_rule(memory_rule, "instance")
        _check(labelled, limit, rule, zero_prompt=details.get(ALLOW_ZERO_PROMPT_LENGTH) is True)
        set_fields(
            self,
            requests=labelled,
            memory_limit=limit,
            name=None if name is None else as_name(name, "instance", "name"),
            metadata=MappingProxyType(details),
            memory_rule=rule,
            replicas=as_integer(replicas, "instance", "replicas", minimum=1, maximum=MOST_REPLICAS),
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
        """Build an instance from columns of equal length n.

        Without arrival times all requests arrive at 0, and without weights all have weight 1.

        Raises
        ------
        InvalidValueError
            Columns of different lengths, or what `Instance` refuses.
        InvalidTypeError
            An entry that is not a whole number.
        """
        count = len(prompt_lengths)
        columns: dict[str, Any] = {
            "arrival_times": [0] * count if arrival_times is None else arrival_times,
            "prompt_lengths": prompt_lengths,
            "output_lengths": output_lengths,
            "weights": [1] * count if weights is None else weights,
        }
        for label, column in columns.items():
            if len(column) != count:
                reason = f"differs from len(prompt_lengths) = {count}"
                raise InvalidValueError("instance", f"len({label})", len(column), reason)
        rows = zip(*columns.values(), strict=True)
        requests = [Request(a, s, o, index, w) for index, (a, s, o, w) in enumerate(rows)]
        options: dict[str, Any] = {"memory_rule": memory_rule, "replicas": replicas}
        return cls(requests, memory_limit, name, metadata, **options)

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)

    def __getitem__(self, index: int) -> Request:
        return self.requests[index]

    def __getstate__(self) -> dict[str, Any]:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return given | {"metadata": dict(self.metadata)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, **state | {"metadata": MappingProxyType(state["metadata"])})

    @cached_property
    def ids(self) -> tuple[RequestId, ...]:
        """Request labels in order."""
        return tuple(request.id for request in self.requests if request.id is not None)

    def _column(self, field: str) -> IntArray:
        return read_only([getattr(request, field) for request in self.requests], np.int64)

    @cached_property
    def arrival_times(self) -> IntArray:
        """a_i, rounds, shape (n,), read-only."""
        return self._column("arrival_time")

    @cached_property
    def prompt_lengths(self) -> IntArray:
        """s_i, tokens, shape (n,), read-only."""
        return self._column("prompt_length")

    @cached_property
    def output_lengths(self) -> IntArray:
        """o_i, tokens and rounds, shape (n,), read-only."""
        return self._column("output_length")

    @cached_property
    def weights(self) -> IntArray:
        """w_i, shape (n,), read-only."""
        return self._column("weight")

    @cached_property
    def is_weighted(self) -> bool:
        """True if some weight is not 1."""
        return any(request.weight != 1 for request in self.requests)

    @cached_property
    def total_weight(self) -> int:
        """Sum of w_i; the number of requests unless some weight is not 1."""
        return sum(self.weights.tolist())

    @cached_property
    def total_output_length(self) -> int:
        """Sum of w_i o_i, rounds: what no schedule's total latency is below."""
        return sum(map(operator.mul, self.weights.tolist(), self.output_lengths.tolist()))

    @property
    def columns(self) -> RequestColumns:
        """Lengths, arrivals and M together, of an instance counted in tokens.

        Raises
        ------
        InvalidValueError
            Another memory rule: what takes columns alone would count wrongly.
        """
        self.require_tokens()
        return RequestColumns(
            self.prompt_lengths, self.output_lengths, self.arrival_times, self.memory_limit
        )

    @cached_property
    def peak_memories(self) -> IntArray:
        """s_i + o_i, tokens, shape (n,), read-only."""
        return self._column("peak_memory")

    @cached_property
    def volumes(self) -> IntArray:
        """s_i o_i + o_i (o_i + 1) / 2, token-rounds, shape (n,), read-only."""
        return self._column("volume")

    @cached_property
    def digest(self) -> str:
        """Content hash (SHA-256, hex) of M, the rows (a, s, o) in order and another memory rule.

        Weights enter where some is not 1, replicas where there are several. Ids, name and metadata
        do not: they change neither the optimum nor a policy's run.
        """
        rows = np.column_stack([self.arrival_times, self.prompt_lengths, self.output_lengths])
        content = rows.astype("<i8").tobytes(order="C")
        if self.is_weighted:
            content += b"weights:" + self.weights.astype("<i8").tobytes()
        return self._hashed("instance", content)

    def require_tokens(self) -> None:
        """Refuse a fleet, and another memory rule where tokens are counted.

        Raises
        ------
        InvalidValueError
            It is one, or has one; `instances.problem.memory_translation` has instances of one
            machine, in tokens, beside it.
        """
        self.require_one_replica()
        if self.memory_rule != TOKENS:
            reason = "is not counted in tokens: take relaxed() or restricted() of the instance"
            raise InvalidValueError("instance", "memory_rule", self.memory_rule.told, reason)

    def refuse_weights(self, reason: str) -> None:
        """Refuse weights where every request counts alike.

        Raises
        ------
        InvalidValueError
            Some request has a weight other than 1; the message ends with ``reason``.
        """
        if self.is_weighted:
            heavy = max(self.requests, key=lambda request: request.weight)
            raise InvalidValueError(f"request {heavy.id!r}", "weight", heavy.weight, reason)

    def with_metadata(self, **entries: Any) -> Instance:
        """A copy whose metadata has ``entries`` added or replaced."""
        return self.replaced(metadata={**self.metadata, **entries})

    def of(self, positions: Sequence[int] | IntArray, **changes: Any) -> Instance:
        """The requests at these positions, in this order, with their ids and ``changes``."""
        return self.replaced(requests=[self.requests[place] for place in positions], **changes)


def as_metadata(given: Mapping[str, Any] | None, owner: str) -> dict[str, Any]:
    """Return a copy of metadata, checked.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Not a mapping, or text that a file cannot hold.
    """
    if given is not None and not isinstance(given, Mapping):
        raise InvalidTypeError(owner, "metadata", given, "is not a mapping")
    details = deepcopy(dict(given or {}))
    try:
        json.dumps(details, ensure_ascii=False, default=str, skipkeys=True).encode()
    except UnicodeEncodeError:
        raise InvalidValueError(owner, "metadata", given, "has half of a surrogate pair") from None
    return details


def _label(requests: Iterable[Request]) -> tuple[Request, ...]:
    labelled: list[Request] = []
    for position, request in enumerate(requests):
        if not isinstance(request, Request):
            raise InvalidTypeError(f"request {position}", "request", request, "is not a Request")
        labelled.append(request if request.id is not None else replace(request, id=position))
    return tuple(labelled)


def _check(
    requests: tuple[Request, ...], memory_limit: int, rule: MemoryRule, *, zero_prompt: bool
) -> None:
    if not requests:
        raise InvalidValueError("instance", "requests", [], "is empty: at least one is needed")
    check_distinct([request.id for request in requests if request.id is not None])
    usable, told = rule.limit(memory_limit), f" with {rule.told}" if rule.told else ""
    for request in requests:
        owner = f"request {request.id!r}"
        # Without a prompt there is nothing that a first token stored next could be computed from.
        if request.prompt_length == 0 and (rule.unstored or not zero_prompt):
            raise InvalidValueError(owner, "prompt_length", 0, f"is below 1{told}")
        # Whole blocks: a peak above this many tokens takes a block more than there are.
        if request.peak_memory - rule.unstored > usable:
            raise InvalidValueError(
                owner,
                "prompt_length + output_length",
                request.peak_memory,
                f"exceeds memory_limit = {memory_limit}{told}: the request can never run",
            )
