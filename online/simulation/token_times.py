"""Times at which output tokens came out, recomputed from the record of a run."""

from __future__ import annotations

import numpy as np

from instances.arrays import FloatArray, IntArray

from .errors import InternalError
from .run_columns import RunRecord


def token_rounds(run: RunRecord) -> tuple[IntArray, IntArray]:
    """Rounds of the output tokens of all completed requests: no token that was lost.

    Returns
    -------
    tuple[int64 array, int64 array]
        (requests, rounds) : int64, shape (k,) each, k the sum of completed outputs, in order of
        request, then of round.

    Raises
    ------
    InternalError
        The record gives a request another number of tokens than it has.
    """
    attempts = run.attempts
    span = run.rounds_run + 1
    counted = _kept_attempts(run)
    requests = attempts.request[counted]
    starts, ends = attempts.start_round[counted], attempts.end_round[counted]
    normal = np.flatnonzero(~_frozen(run))
    first = np.searchsorted(normal, starts, side="right")
    lengths = np.searchsorted(normal, ends, side="right") - first
    attempt = np.repeat(np.arange(len(starts)), lengths)
    keys = attempt * span + normal[_ranges(first, lengths)]
    if len(run.pauses.rounds) and len(starts):
        order = np.lexsort((starts, requests))
        columns = requests[order], starts[order], ends[order]
        advanced = _named(run, columns, order, span, frozen=True)
        held = _named(run, columns, order, span, frozen=False)
        # Unique as they are, but setdiff1d then leaves them in the order given.
        keys = np.setdiff1d(np.concatenate([keys, advanced]), held, assume_unique=True)
        keys.sort()
    attempt, rounds = np.divmod(keys, span)
    silent = run.service_model.prefill_rounds
    if silent:
        begun = np.searchsorted(attempt, np.arange(len(starts)))
        place = np.arange(len(attempt)) - begun[attempt]
        attempt, rounds = attempt[place >= silent], rounds[place >= silent]
    owners = requests[attempt]
    # Attempts count in order of start: those of a request stay in order.
    by_request = np.argsort(owners, kind="stable")
    owners, rounds = owners[by_request], rounds[by_request]
    counts = np.bincount(owners, minlength=len(run.output_lengths))
    expected = np.where(run.completion_rounds >= 0, run.output_lengths, 0)
    if not np.array_equal(counts, expected):
        wrong = int(np.flatnonzero(counts != expected)[0])
        raise InternalError(
            f"{run.policy_name}: request {run.ids[wrong]!r} emitted {counts[wrong]} tokens "
            f"instead of {expected[wrong]}"
        )
    return owners, rounds


def inter_token_latencies(run: RunRecord) -> tuple[IntArray, FloatArray]:
    """Time between consecutive output tokens of each completed request.

    Returns
    -------
    tuple[int64 array, float64 array]
        (requests, latencies) : shape (k,) each, in order of request, then of time.
    """
    owners, rounds = token_rounds(run)
    times = rounds.astype(np.float64)
    if run.round_end_times is not None:
        times = run.round_end_times[rounds - 1]
    same = owners[1:] == owners[:-1]
    return owners[1:][same], np.diff(times)[same]


def _named(
    run: RunRecord,
    columns: tuple[IntArray, IntArray, IntArray],
    order: IntArray,
    span: int,
    *,
    frozen: bool,
) -> IntArray:
    """attempt * span + round of the requests that pauses of one kind name.

    ``columns`` are requests, starts and ends of the attempts in the order ``order``.
    """
    pauses = run.pauses
    counts = np.diff(pauses.offsets)
    chosen = np.repeat(pauses.frozen == frozen, counts)
    requests = pauses.request[chosen]
    first = np.repeat(pauses.first_round, counts)[chosen]
    lengths = np.repeat(pauses.rounds, counts)[chosen]
    rounds = _ranges(first, lengths)
    owners = np.repeat(requests, lengths)
    sorted_requests, sorted_starts, sorted_ends = columns
    place = (
        np.searchsorted(
            sorted_requests * span + sorted_starts, owners * span + rounds - 1, side="right"
        )
        - 1
    )
    inside = place >= 0
    place = np.maximum(place, 0)
    inside &= (sorted_requests[place] == owners) & (rounds <= sorted_ends[place])
    keys: IntArray = order[place[inside]] * span + rounds[inside]
    return keys


def _kept_attempts(run: RunRecord) -> IntArray:
    """Attempts of completed requests whose tokens were not lost, in order of start."""
    attempts = run.attempts
    chain = np.zeros(len(run.output_lengths), dtype=np.int64)
    fresh = np.flatnonzero(attempts.tokens_kept == 0)
    # The last attempt that brought nothing along begins what counts.
    np.maximum.at(chain, attempts.request[fresh], fresh)
    done = run.completion_rounds[attempts.request] >= 0
    return np.flatnonzero(done & (np.arange(len(done)) >= chain[attempts.request]))


def _frozen(run: RunRecord) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell for each round 0 .. rounds_run whether it was frozen; round 0 counts as frozen."""
    frozen = np.zeros(run.rounds_run + 1, dtype=np.bool_)
    frozen[0] = True
    pauses = run.pauses
    frozen[_ranges(pauses.first_round[pauses.frozen], pauses.rounds[pauses.frozen])] = True
    return frozen


def _ranges(first: IntArray, lengths: IntArray) -> IntArray:
    """The concatenation of first[j], first[j] + 1, .., lengths[j] entries each."""
    total = int(lengths.sum())
    return np.arange(total) + np.repeat(first - np.cumsum(lengths) + lengths, lengths)
