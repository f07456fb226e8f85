"""Requests at real arrival times, with the batch time that says how long a round lasts."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_integer, as_number, check_storable

from .arrival_processes import ArrivalProcess
from .arrival_source import Arrival, ArrivalSource, FixedArrivals
from .batches import BatchTime, check_batch_time
from .instance import (
    ALLOW_ZERO_PROMPT_LENGTH,
    Instance,
    Problem,
    told_replicas,
)
from .memory_rule import TOKENS, MemoryRule
from .request import RequestId, as_request_id, check_distinct


class Workload(FixedArrivals, Problem):
    """Requests with arrival times in seconds: an arrival source that reacts to nothing.

    An `Instance` counts whole rounds; in a workload each round lasts as long as its batch takes.
    Lengths and M are refused by the rules of `Instance`.

    Parameters
    ----------
    arrival_times : Sequence[float] or float64 array
        Seconds >= 0, finite, not decreasing, shape (n,), n >= 1.
    prompt_lengths, output_lengths : Sequence[int] or int64 array
        Tokens, whole numbers, shape (n,).
    memory_limit : int
        Capacity M, tokens.
    batch_time : BatchTime or None, default None
        Seconds of a round; None where it is not known, which suffices until requests are served.
    ids : Sequence[RequestId] or None, default None
        Labels; None takes the positions.
    name : str or None, default None
        A label for tables.
    metadata : Mapping[str, Any] or None, default None
        What should travel with the workload. The key ``"allow_zero_prompt_length"`` is that of
        `Instance`.
    memory_rule : MemoryRule, default TOKENS
        How memory is counted.
    replicas : int, default 1
        Number K of identical machines, each with this memory, as in `Instance`.

    Attributes
    ----------
    arrival_times : Sequence[float] or float64 array, shape (n,)
        Read-only.
    prompt_lengths, output_lengths : Sequence[int] or int64 array, shape (n,)
        Read-only.
    ids, memory_limit, batch_time, name, metadata, memory_rule, replicas
        As given.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Times out of order or range, or what `Instance` refuses.
    """

    unit = "s"

    def __init__(  # noqa: PLR0913
        self,
        arrival_times: Sequence[float] | FloatArray,
        prompt_lengths: Sequence[int] | IntArray,
        output_lengths: Sequence[int] | IntArray,
        *,
        memory_limit: int,
        batch_time: BatchTime | None = None,
        ids: Sequence[RequestId] | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        memory_rule: MemoryRule = TOKENS,
        replicas: int = 1,
    ) -> None:
        zero_prompt = (metadata or {}).get(ALLOW_ZERO_PROMPT_LENGTH) is True
        lengths = Instance.from_arrays(
            prompt_lengths,
            output_lengths,
            memory_limit=memory_limit,
            name=name,
            metadata={ALLOW_ZERO_PROMPT_LENGTH: zero_prompt},
            memory_rule=memory_rule,
            replicas=replicas,
        )
        times = _times(arrival_times, len(lengths))
        labels = tuple(range(len(lengths))) if ids is None else tuple(map(as_request_id, ids))
        if len(labels) != len(lengths):
            raise InvalidValueError(
                "workload", "ids", list(labels[:3]), f"are not {len(lengths)} labels"
            )
        check_distinct(labels)
        check_storable(metadata or {}, "workload", "metadata")
        self.arrival_times = times
        self.prompt_lengths = lengths.prompt_lengths
        self.output_lengths = lengths.output_lengths
        self.ids = labels
        self.memory_limit = lengths.memory_limit
        self.batch_time = None if batch_time is None else check_batch_time(batch_time)
        self.name = lengths.name
        self.metadata = deepcopy(dict(metadata or {}))
        self.memory_rule = lengths.memory_rule
        self.replicas = lengths.replicas
        columns = (times, self.prompt_lengths, self.output_lengths)
        rows = zip(*[column.tolist() for column in columns], labels, strict=True)
        self._arrivals = [Arrival(*row) for row in rows]

    @classmethod
    def from_arrivals(
        cls,
        arrivals: Sequence[Arrival],
        memory_limit: int,
        *,
        batch_time: BatchTime | None = None,
    ) -> Workload:
        """A workload from arrivals in order of time; those without a label get their position."""
        return cls(
            [arrival.time for arrival in arrivals],
            [arrival.prompt_length for arrival in arrivals],
            [arrival.output_length for arrival in arrivals],
            memory_limit=memory_limit,
            batch_time=batch_time,
            ids=[k if one.id is None else one.id for k, one in enumerate(arrivals)],
        )

    @classmethod
    def from_instance(cls, instance: Instance, batch_time: BatchTime | None = None) -> Workload:
        """The requests of an instance by arrival, with rounds of arrival counted as seconds.

        Raises
        ------
        InvalidValueError
            The instance has weights, which a workload has not.
        """
        instance.refuse_weights("is not 1: in seconds every request counts alike")
        order = np.argsort(instance.arrival_times, kind="stable")
        return cls(
            instance.arrival_times[order].tolist(),
            instance.prompt_lengths[order],
            instance.output_lengths[order],
            memory_limit=instance.memory_limit,
            batch_time=batch_time,
            ids=[instance.ids[position] for position in order.tolist()],
            name=instance.name,
            metadata=instance.metadata,
            memory_rule=instance.memory_rule,
            replicas=instance.replicas,
        )

    @classmethod
    def with_arrivals(
        cls,
        lengths: Instance,
        process: ArrivalProcess,
        *,
        seed: int = 0,
        batch_time: BatchTime | None = None,
    ) -> Workload:
        """The requests of an instance, in its order, at the arrival times of a process.

        The instance's own arrival times are not used.

        Raises
        ------
        InvalidValueError
            The instance has weights, which a workload has not.
        """
        lengths.refuse_weights("is not 1: a Workload has no weights")
        seed = as_integer(seed, None, "seed", minimum=0)
        return cls(
            process.draw(np.random.default_rng(seed), len(lengths)),
            lengths.prompt_lengths,
            lengths.output_lengths,
            memory_limit=lengths.memory_limit,
            batch_time=batch_time,
            ids=lengths.ids,
            name=lengths.name,
            metadata={**lengths.metadata, "arrivals": {"process": repr(process), "seed": seed}},
            memory_rule=lengths.memory_rule,
            replicas=lengths.replicas,
        )

    def of(self, positions: Sequence[int] | IntArray) -> Workload:
        """The requests at these positions, which ascend, with their ids."""
        chosen = np.asarray(positions)
        return self.replaced(
            arrival_times=self.arrival_times[chosen],
            prompt_lengths=self.prompt_lengths[chosen],
            output_lengths=self.output_lengths[chosen],
            ids=[self.ids[position] for position in chosen.tolist()],
        )

    def alone(self, positions: Sequence[int] | IntArray | None = None) -> Workload:
        """The requests at these positions, which ascend, or all of them, on one machine."""
        return (self if positions is None else self.of(positions)).replaced(replicas=1)

    def with_replicas(self, replicas: int) -> Workload:
        """The same requests on another number of machines.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            No whole number, or below 1.
        """
        return self.replaced(replicas=replicas)

    def with_batch_time(self, batch_time: BatchTime | None) -> Workload:
        """The same requests where rounds last by another batch time.

        Raises
        ------
        InvalidTypeError
            No batch time.
        """
        return self.replaced(batch_time=batch_time)

    def require_batch_time(self) -> BatchTime:
        """Return the batch time.

        Raises
        ------
        InvalidValueError
            It is not known; the message says how to give it.
        """
        if self.batch_time is None:
            reason = (
                "is not known: give it as workload.with_batch_time(...), or batch_time=... where "
                "the workload is made, such as AffineTime(0.05, 0.0003, 2e-6) or "
                "preset(NAME).batch_time of instances.batch_time"
            )
            raise InvalidValueError("workload", "batch_time", None, reason)
        return self.batch_time

    @property
    def digest(self) -> str:
        """Content hash (SHA-256, hex) of M, the rows (a, s, o) in order and another memory rule.

        Replicas enter where there are several. Ids, name and metadata do not: they change neither
        the optimum nor a policy's run. The batch time, which changes both, does not either: the
        digest names the requests and their memory, and `matches` compares the batch times too.
        """
        columns = self.arrival_times + 0.0, self.prompt_lengths, self.output_lengths
        content = hashlib.sha256(f"workload:1:{self.memory_limit}:{len(self)}:".encode())
        for column in columns:
            content.update(column.astype("<f8").tobytes())
        content.update((self.memory_rule.told + told_replicas(self.replicas)).encode())
        return content.hexdigest()

    def faster(self, factor: float) -> Workload:
        """The same requests arriving ``factor`` times as fast: every time divided by it.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            A factor that is no finite number above 0.
        """
        factor = as_number(factor, "workload", "factor", above=0)
        name = f"{self.name} x{factor:g}" if self.name else None
        metadata = {**self.metadata, "faster": factor}
        return self.replaced(
            arrival_times=self.arrival_times / factor, name=name, metadata=metadata
        )

    def renamed(self, name: str | None, metadata: Mapping[str, Any] | None = None) -> Workload:
        """The same requests with another name, and other metadata where some is given."""
        return self.replaced(name=name, metadata=self.metadata if metadata is None else metadata)

    def under(self, memory_rule: MemoryRule) -> Workload:
        """The same requests and memory under another memory rule.

        Raises
        ------
        InvalidValueError
            A request that could never run under it.
        """
        return self.replaced(memory_rule=memory_rule)

    def replaced(self, **changes: Any) -> Workload:
        """A copy with other arguments of the constructor."""
        names = inspect.signature(Workload).parameters
        return Workload(**{name: getattr(self, name) for name in names} | changes)

    def __len__(self) -> int:
        return len(self._arrivals)


def as_problem(given: object, field: str = "instance") -> Instance | Workload:
    """Return an instance, or a workload whose batch time is known, as it is.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Neither, or a workload without a batch time.
    """
    if isinstance(given, Workload):
        given.require_batch_time()
        return given
    if isinstance(given, Instance):
        return given
    raise InvalidTypeError(None, field, given, "is neither an Instance nor a Workload")


def source_batch_time(source: Instance | ArrivalSource) -> BatchTime | None:
    """Return the seconds of a round of what requests come from; None where rounds are counted.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A workload without a batch time, or a source with something else as one.
    """
    if isinstance(source, Workload):
        return source.require_batch_time()
    found = getattr(source, "batch_time", None)
    return None if found is None else check_batch_time(found)


def in_seconds(source: Any, batch_time: BatchTime | None) -> Any:
    """Return what requests come from with a batch time; None leaves it as it is.

    An instance becomes a workload. An arrival source of another kind keeps the batch time as its
    attribute ``batch_time``.
    """
    if batch_time is None:
        return source
    if isinstance(source, Instance):
        return Workload.from_instance(source, batch_time)
    if isinstance(source, Workload):
        return source.with_batch_time(batch_time)
    source.batch_time = batch_time
    return source


def _times(given: Sequence[float] | FloatArray, count: int) -> FloatArray:
    if len(given) != count:
        raise InvalidValueError(
            "workload", "len(arrival_times)", len(given), f"differs from {count} requests"
        )
    times = read_only(
        [as_number(t, f"request {k}", "arrival time", minimum=0) for k, t in enumerate(given)]
    )
    back = np.flatnonzero(np.diff(times) < 0)
    if len(back):
        place = int(back[0]) + 1
        raise InvalidValueError(
            f"request {place}", "arrival time", float(times[place]), "lies before the previous one"
        )
    return times
