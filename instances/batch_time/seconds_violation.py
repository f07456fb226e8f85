"""A rule that a schedule in seconds breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from instances.problem.request import RequestId


@dataclass(frozen=True, slots=True)
class SecondsViolation:
    """One broken rule of a schedule in seconds.

    Attributes
    ----------
    kind : {"early-start", "memory", "clock", "order", "prompt", "output"}
        ``"early-start"`` (something is done before a_i), ``"memory"`` (a round holds more than M,
        or than the usable blocks of the memory rule), ``"clock"`` (a round begins before the one
        before it is over), ``"order"`` (a stretch that neither goes on where the one before it
        ended nor enters the cache anew), ``"prompt"`` (more prompt tokens processed than there
        are), ``"output"`` (not all output tokens are emitted, or more, or something is done after
        the last).
    request_id : RequestId or None
        The request, or None.
    round_index : int or None
        The round, from 1, or None.
    amount : float
        Seconds too early, tokens above that, or tokens too many or missing.
    """

    kind: Literal["early-start", "memory", "clock", "order", "prompt", "output"]
    request_id: RequestId | None
    round_index: int | None
    amount: float

    def __str__(self) -> str:
        where = f"request {self.request_id!r}"
        at = f"round {self.round_index}"
        return {
            "early-start": f"{where} is served {self.amount:g} s before it arrives",
            "memory": f"{at} holds {self.amount:g} tokens more than memory_limit",
            "clock": f"{at} begins {self.amount:g} s before the one before it ends",
            "order": f"{where} does not go on in {at} where it was",
            "prompt": f"{where} processes {self.amount:g} prompt tokens too many from {at} on",
            "output": f"{where} is {self.amount:g} output tokens off when it is last served",
        }[self.kind]
