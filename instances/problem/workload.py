"""Workloads: requests with arrival times in seconds, and a model of the seconds of a round."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import LARGEST_TOKEN_COUNT, as_number

from .batches import BatchTime, check_batch_time
from .instance import Instance, Problem
from .memory_rule import TOKENS, MemoryRule
from .request import RequestId, as_column, as_request_id, check_count


def poisson_times(rng: np.random.Generator, count: int, rate: float) -> FloatArray:
    """Draw the first ``count`` arrival times, in seconds, of a Poisson process.

    ``rate`` is the mean number of arrivals per second.
    """
    times: FloatArray = np.cumsum(rng.exponential(1.0, count)) / rate
    return times


class Workload(Problem):
    """Workload: requests with arrival times in seconds, and KV-cache capacity.

    In an `Instance` every round takes one unit of time. Here a round takes the seconds that the
    batch time, a model, computes from the batch of the round. Lengths and M must meet the
    conditions of `Instance`.

    Parameters
    ----------
    arrival_times : Sequence[float] or float64 array
        Seconds >= 0, finite, not decreasing, shape (n,), n >= 1.
    prompt_lengths, output_lengths : Sequence[int] or int64 array
        Prompt and output tokens of each request, whole numbers, shape (n,).
    memory_limit : int
        Capacity M, tokens.
    batch_time : BatchTime or None, default None
        Model of the seconds that a round takes; None if unknown. A schedule or a run needs it.
    ids : Sequence[RequestId] or None, default None
        Labels; None takes the positions.
    name : str or None, default None
        A label for tables.
    metadata : Mapping[str, Any] or None, default None
        Any data that JSON can hold, stored with the workload. The key
        ``"allow_zero_prompt_length"`` has the same meaning as in `Instance`.
    memory_rule : MemoryRule, default TOKENS
        How the memory of a request is counted: in tokens or in blocks.
    replicas : int, default 1
        Number K of identical machines, each with this memory, as in `Instance`.

    Attributes
    ----------
    arrival_times : float64 array, shape (n,)
        Seconds. Read-only.
    prompt_lengths, output_lengths : int64 array, shape (n,)
        Tokens. Read-only.
    ids, memory_limit, batch_time, name, metadata, memory_rule, replicas
        As passed to the constructor.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Arrival times decrease or are out of range, or lengths, ids or M do not meet the conditions
        of `Instance`.
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
        count = len(prompt_lengths)
        check_count("workload", "output_lengths", output_lengths, count)
        check_count("workload", "arrival_times", arrival_times, count)
        labels = tuple(range(count)) if ids is None else tuple(map(as_request_id, ids))
        check_count("workload", "ids", labels, count)
        tokens = partial(as_column, ids=labels, maximum=LARGEST_TOKEN_COUNT)
        self._share(
            *(memory_limit, name, metadata, memory_rule, replicas),
            ids=labels,
            arrival_times=_times(arrival_times),
            prompt_lengths=tokens(prompt_lengths, field="prompt_length", minimum=0),
            output_lengths=tokens(output_lengths, field="output_length", minimum=1),
            batch_time=None if batch_time is None else check_batch_time(batch_time),
        )

    @classmethod
    def from_instance(cls, instance: Instance, batch_time: BatchTime | None = None) -> Workload:
        """Convert an instance to a workload: an arrival at round r becomes one at r seconds.

        Requests are sorted by arrival.

        Raises
        ------
        InvalidValueError
            The instance has weights, which a workload cannot have.
        """
        instance.refuse_weights("is not 1: a Workload has no weights")
        ordered = instance.of(instance.order_of_arrival)
        given = inspect.signature(cls).parameters.keys() - {"batch_time"}
        return cls(**{name: getattr(ordered, name) for name in given}, batch_time=batch_time)

    def of(self, positions: Sequence[int] | IntArray, **changes: Any) -> Workload:
        """Return a workload with only the requests at these positions. They keep their ids.

        The positions must increase. ``changes`` are further arguments of the constructor.
        """
        chosen = np.asarray(positions)
        columns = ("arrival_times", "prompt_lengths", "output_lengths")
        changes |= {name: getattr(self, name)[chosen] for name in columns}
        return self.replaced(ids=[self.ids[place] for place in chosen.tolist()], **changes)

    def require_batch_time(self) -> BatchTime:
        """Return the batch time, the model of the seconds of a round; raise an error without one.

        Raises
        ------
        InvalidValueError
            The workload has no batch time. The message shows how to set one.
        """
        if self.batch_time is None:
            reason = "is not known: give it as replaced(batch_time=preset(NAME).batch_time)"
            raise InvalidValueError("workload", "batch_time", None, reason)
        return self.batch_time

    def _content(self) -> bytes:
        columns = self.arrival_times + 0.0, self.prompt_lengths, self.output_lengths
        return b"".join(column.astype("<f8").tobytes() for column in columns)

    def faster(self, factor: float) -> Workload:
        """Return a copy whose arrival times are divided by ``factor``. The requests are the same.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            The factor is not a finite number above 0.
        """
        factor = as_number(factor, "workload", "factor", above=0)
        name = f"{self.name} x{factor:g}" if self.name else None
        metadata = {**self.metadata, "faster": factor}
        return self.replaced(
            arrival_times=self.arrival_times / factor, name=name, metadata=metadata
        )


def as_problem(given: object, field: str = "instance") -> Instance | Workload:
    """Check that an argument is an instance, or a workload with a batch time, and return it.

    ``field`` is the name of the argument in errors.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        The argument is neither an instance nor a workload, or is a workload without a batch time.
    """
    if isinstance(given, Workload):
        given.require_batch_time()
        return given
    if isinstance(given, Instance):
        return given
    raise InvalidTypeError(None, field, given, "is neither an Instance nor a Workload")


def _times(given: Sequence[float] | FloatArray) -> FloatArray:
    times = read_only(
        [as_number(t, f"request {k}", "arrival time", minimum=0) for k, t in enumerate(given)]
    )
    for place in (np.flatnonzero(np.diff(times) < 0) + 1).tolist():
        reason = "lies before the previous one"
        raise InvalidValueError(f"request {place}", "arrival time", float(times[place]), reason)
    return times
