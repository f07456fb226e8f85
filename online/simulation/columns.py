"""Columns of the record of a run: rounds that ran, and attempts to serve requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray

RunStatus = Literal["completed", "livelock", "round-limit", "stalled", "time-limit"]


@dataclass(frozen=True, slots=True)
class Stretches:
    """Consecutive rounds with an unchanged batch, as columns of shape (k,).

    Attributes
    ----------
    first_round, rounds : int64 array
        Index of the first round of each stretch, and its number of rounds.
    memory : int64 array
        Tokens stored in its first round.
    batch_size : int64 array
        Requests that advance in each of its rounds, and so the tokens added from each to the next;
        held requests and prompts in progress are not among them.
    start_time : float64 array
        Clock at the beginning of its first round.
    """

    first_round: IntArray
    rounds: IntArray
    memory: IntArray
    batch_size: IntArray
    start_time: FloatArray


@dataclass(frozen=True, slots=True)
class Attempts:
    """Every stay of a request in the batch, as columns of shape (k,), in order of start.

    Attributes
    ----------
    request : int64 array
        Index of the request.
    start_round, end_round : int64 array
        It was in the batch in rounds start_round + 1 .. end_round.
    completed : bool array
        Whether it ended by completion.
    tokens_kept : int64 array
        Output tokens it brought along from the attempt before, which was preempted; where that is 0
        the attempt before, if there was one, lost its work.
    tokens_reused : int64 array
        Tokens, prompt and output, that it still found stored and did not process again.
    """

    request: IntArray
    start_round: IntArray
    end_round: IntArray
    completed: npt.NDArray[np.bool_]
    tokens_kept: IntArray
    tokens_reused: IntArray


class Load(NamedTuple):
    """Load of each replica at times on the clock.

    Attributes
    ----------
    times : float64 array, shape (t,)
        On the clock.
    tokens : int64 array, shape (K, t)
        KV tokens stored in the round under way.
    waiting, running : int64 array, shape (K, t)
        Requests in the queue and in the batch.
    """

    times: FloatArray
    tokens: IntArray
    waiting: IntArray
    running: IntArray
