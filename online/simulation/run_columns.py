"""The full record of a simulation as columns: who was in the batch when, and in which rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Stretches:
    """Consecutive rounds with an unchanged batch, as columns of shape (k,).

    Attributes
    ----------
    first_round : int64 array
        Index of the first round of each stretch.
    rounds : int64 array
        Its number of rounds.
    memory : int64 array
        Tokens held in its first round.
    batch_size : int64 array
        Requests that advance in each of its rounds, and so the tokens added from each to the next;
        held requests and prompts in progress are not among them.
    start_time : float64 array
        Clock at the beginning of its first round, float64.
    """

    first_round: IntArray
    rounds: IntArray
    memory: IntArray
    batch_size: IntArray
    start_time: FloatArray

    @property
    def growth(self) -> IntArray:
        """Tokens added from each round of a stretch to the next."""
        return self.batch_size


@dataclass(frozen=True, slots=True)
class Attempts:
    """Every stay of a request in the batch, as columns of shape (k,), in order of start.

    Attributes
    ----------
    request : int64 array
        Index of the request, in order of appearance.
    start_round, end_round : int64 array
        It was in the batch in rounds start_round + 1 .. end_round.
    completed : bool array
        Whether it ended by completion; otherwise it was evicted or preempted.
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


@dataclass(frozen=True, slots=True)
class Pauses:
    """Rounds in which part of the batch was held, as columns of shape (k,).

    Attributes
    ----------
    first_round, rounds : int64 array
        Which rounds.
    frozen : bool array
        Whether the requests named are those that advanced and all others were held; otherwise they
        are those that were held.
    offsets : int64 array, shape (k + 1,)
        The requests of pause j are ``request[offsets[j]:offsets[j + 1]]``.
    request : int64 array
        Index of each request named.
    chunks : int64 array, shape (c, 3)
        Which pause, which of the requests held in it, and how many tokens of its prompt that
        processed in each of the rounds.
    """

    first_round: IntArray
    rounds: IntArray
    frozen: npt.NDArray[np.bool_]
    offsets: IntArray
    request: IntArray
    chunks: IntArray
