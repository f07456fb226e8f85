"""KV cache held by each request in each round: schedules and runs as stacked bands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray
from instances.problem.schedule import RoundSchedule
from instances.show import stacked

from .run import Run


@dataclass(frozen=True, slots=True)
class Stays:
    """Stays of requests in the batch, as columns of shape (k,).

    A stay holds ``base + (r - begin)`` tokens in each round r of begin + 1 .. end.

    Attributes
    ----------
    request : int64 array
        Index of the request.
    begin, end : int64 array
        Rounds.
    base : int64 array
        Tokens held before its first round: the prompt, and tokens kept from an earlier stay.
    completed : bool array
        Whether the stay ended by completion; otherwise the request was sent back. In a schedule
        all have: what it stops loses nothing.
    """

    request: IntArray
    begin: IntArray
    end: IntArray
    base: IntArray
    completed: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.request)


@dataclass(frozen=True, slots=True)
class Band:
    """Band of tokens of a stay, stacked upon the stays below it.

    Attributes
    ----------
    stay : int
        Its row in `Stays`.
    begin : int
        The band covers rounds begin + 1 .. begin + k.
    bottom, top : int64 array
        Tokens, int64, shape (k,), one entry for each of its rounds.
    """

    stay: int
    begin: int
    bottom: IntArray
    top: IntArray

    def outline(self) -> tuple[IntArray, IntArray]:
        """Corners of the band as a closed polygon of steps, where round r is [r - 1, r]."""
        edges = np.arange(self.begin, self.begin + len(self.top) + 1)
        # A corner at both ends of every round: memory is constant in a round and jumps between.
        steps = np.repeat(edges, 2)[1:-1]
        return (
            np.concatenate([steps, steps[::-1]]),
            np.concatenate([np.repeat(self.top, 2), np.repeat(self.bottom, 2)[::-1]]),
        )


def stays_of(shown: RoundSchedule | Run) -> Stays:
    """Every stay of a schedule or a run, in order of the requests or of the starts.

    Raises
    ------
    ValueError
        The run held requests midway or processed prompts in chunks, so that a stay does not grow by
        a token a round.
    """
    if isinstance(shown, RoundSchedule):
        request, begin, held, rounds = shown.stretch_columns
        return Stays(request, begin, begin + rounds, held, np.ones(len(request), dtype=np.bool_))
    attempts = shown.attempts
    base = shown.prompt_lengths[attempts.request] + attempts.tokens_kept
    stays = Stays(
        attempts.request,
        attempts.start_round,
        attempts.end_round,
        base - shown.service_model.prefill_rounds,
        attempts.completed,
    )
    if len(shown.pauses.rounds) or not np.array_equal(
        profile_of(stays, shown.rounds_run), shown.memory_profile()
    ):
        raise ValueError(
            f"the run of {shown.policy_name!r} held requests midway: they do not grow by a token a "
            "round, and cannot be stacked from their starts; draw memory_over_time instead"
        )
    return stays


def profile_of(stays: Stays, horizon: int) -> IntArray:
    """Tokens held in rounds 0 .. horizon: int64, shape (horizon + 1,)."""
    profile = np.zeros(horizon + 1, dtype=np.int64)
    for begin, end, base in zip(
        stays.begin.tolist(), stays.end.tolist(), stays.base.tolist(), strict=True
    ):
        profile[begin + 1 : end + 1] += np.arange(base + 1, base + 1 + end - begin)
    return profile


def bands_of(stays: Stays) -> list[Band]:
    """The stays stacked, see `instances.show.stacked`."""
    columns = (stays.begin, stays.base, stays.end - stays.begin)
    return [Band(row, int(stays.begin[row]), *edges) for row, *edges in stacked(*columns)]
