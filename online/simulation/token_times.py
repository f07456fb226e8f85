"""When each output token came out, recomputed from the record of a run."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.request import RequestId
from online.batch_time.service_model import ServiceModel

from .errors import InternalError


class Record(Protocol):
    """What of a `Run` tells its tokens; runs themselves import this module."""

    @property
    def policy_name(self) -> str:
        """Registered name of the policy."""

    @property
    def ids(self) -> tuple[RequestId, ...]:
        """The requests' labels."""

    @property
    def output_lengths(self) -> IntArray:
        """Tokens, shape (n,)."""

    @property
    def completion_rounds(self) -> IntArray:
        """Rounds, shape (n,); -1 where there is none."""

    @property
    def attempts(self) -> Any:
        """Every stay in the batch."""

    @property
    def pauses(self) -> Any:
        """Rounds in which part of the batch was held."""

    @property
    def round_end_times(self) -> FloatArray | None:
        """Clock at the end of each round; None in the round model."""

    @property
    def service_model(self) -> ServiceModel:
        """How many rounds a request takes."""

    @property
    def rounds_run(self) -> int:
        """Index of the last round that ran."""


def attempt_stretches(run: Record) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Consecutive rounds in which a stay in the batch does the same.

    Returns
    -------
    tuple[int64 array, int64 array, int64 array, int64 array]
        (attempts, first_rounds, rounds, chunk_tokens) : int64, shape (k,) each, in order of
        attempt, then of round; ``chunk_tokens`` as in `instances.batch_time.Stretch`.
    """
    attempts, pauses = run.attempts, run.pauses
    edges = np.unique(
        np.concatenate(
            [
                np.array([1, run.rounds_run + 1]),
                pauses.first_round,
                pauses.first_round + pauses.rounds,
            ]
        )
    )
    # Nobody enters or leaves the batch within a pause.
    pause_of = np.full(len(edges), -1, dtype=np.int64)
    pause_of[np.searchsorted(edges, pauses.first_round)] = np.arange(len(pauses.rounds))
    start, end = attempts.start_round, attempts.end_round
    begun = np.searchsorted(edges, start + 1, side="right") - 1
    pieces = np.where(end > start, np.searchsorted(edges, end, side="right") - begun, 0)
    attempt, piece = np.repeat(np.arange(len(start)), pieces), _ranges(begun, pieces)
    first = np.maximum(edges[piece], start[attempt] + 1)
    after = np.minimum(edges[piece + 1], end[attempt] + 1)
    n, pause = len(run.output_lengths), pause_of[piece]
    key = pause * n + attempts.request[attempt]
    named = np.repeat(np.arange(len(pauses.rounds)), np.diff(pauses.offsets)) * n + pauses.request
    deed = np.full(len(key), ADVANCES)
    if len(pauses.rounds):
        deed[(pause >= 0) & (np.isin(key, named) != pauses.frozen[pause])] = 0
    chunk = pauses.pause_of_chunk * n + pauses.chunk_request
    order = np.argsort(chunk)
    among = np.isin(key, chunk)
    deed[among] = pauses.chunk_tokens[order[np.searchsorted(chunk[order], key[among])]]
    changes = np.ones(len(key), dtype=np.bool_)
    changes[1:] = (np.diff(attempt) != 0) | (np.diff(deed) != 0)
    opening = np.flatnonzero(changes)
    rounds = np.add.reduceat(after - first, opening) if len(opening) else first
    return attempt[opening], first[opening], rounds, deed[opening]


def token_rounds(run: Record) -> tuple[IntArray, IntArray]:
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
    attempt, first, lengths, deed = attempt_stretches(run)
    counted = _kept_attempts(run)[attempt] & (deed == ADVANCES)
    attempt = np.repeat(attempt[counted], lengths[counted])
    rounds = _ranges(first[counted], lengths[counted])
    silent = run.service_model.prefill_rounds
    if silent:
        begun = np.searchsorted(attempt, np.arange(len(attempts.request)))
        place = np.arange(len(attempt)) - begun[attempt]
        attempt, rounds = attempt[place >= silent], rounds[place >= silent]
    owners = attempts.request[attempt]
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


def inter_token_latencies(run: Record) -> tuple[IntArray, FloatArray]:
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


def _kept_attempts(run: Record) -> npt.NDArray[np.bool_]:
    """Which attempts are of completed requests and did not lose their tokens."""
    attempts = run.attempts
    chain = np.zeros(len(run.output_lengths), dtype=np.int64)
    fresh = np.flatnonzero(attempts.tokens_kept == 0)
    # The last attempt that brought nothing along begins what counts.
    np.maximum.at(chain, attempts.request[fresh], fresh)
    done = run.completion_rounds[attempts.request] >= 0
    kept: npt.NDArray[np.bool_] = done & (np.arange(len(done)) >= chain[attempts.request])
    return kept


def _ranges(first: IntArray, lengths: IntArray) -> IntArray:
    """The concatenation of first[j], first[j] + 1, .., lengths[j] entries each."""
    total = int(lengths.sum())
    return np.arange(total) + np.repeat(first - np.cumsum(lengths) + lengths, lengths)
