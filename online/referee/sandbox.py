"""The other end of `online.referee.player`: a policy whose decisions come from outside."""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from instances.validation import as_integer, as_number
from online.policy_interface.policy import Decision, Policy, Setup, State, VisibleRequest

SEED_VARIABLE = "LLM_HINDSIGHT_REFEREE_SEED"
"""Environment variable with the secret seed, which the policy's process does not get."""

LARGEST_ANSWER = 10_000_000
"""Bytes beyond which a decision is no decision."""

STARTING_SECONDS = 60.0
"""What the process may take until it has loaded this package, which is not the policy's doing."""

_NOT_DUMPABLE = 4
"""Linux's PR_SET_DUMPABLE, with 0: processes of the same user cannot read this one's memory."""


@dataclass(frozen=True)
class Limits:
    """Limits of each run of a policy.

    Attributes
    ----------
    seconds : float, default 20
        Wall time, from when its file is read.
    megabytes : int, default 1024
        Memory beyond what this package takes.
    """

    seconds: float = 20.0
    megabytes: int = 1024


class PlayerError(RuntimeError):
    """The policy's process gave no decision.

    Attributes
    ----------
    status : str
        ``"time-limit"``, ``"memory-limit"``, ``"died"`` or ``"failed"``.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class SandboxedPolicy(Policy):
    """A policy that runs in a process of its own; to be closed.

    What comes back is read as JSON and never unpickled, and what it decides is held by the
    simulator to the rules of every policy.

    Parameters
    ----------
    text : str
        The policy, as `online.policy_interface.specs.read_policy` takes it.
    limits : Limits
        Of this run.

    Raises
    ------
    PlayerError
        It cannot be made within the limits, or what it does is nothing that can be refereed.
    """

    def __init__(self, text: str, limits: Limits) -> None:
        hide_memory()
        self._limits = limits
        self._rest = b""
        self._events: list[list[Any]] = []
        self._channel, other = socket.socketpair()
        environment = {key: one for key, one in os.environ.items() if key != SEED_VARIABLE}
        command = [sys.executable, "-m", "online.referee.player"]
        # Of the processor, for where this process is gone and cannot end it.
        most_seconds = math.ceil(limits.seconds + STARTING_SECONDS)
        with other:
            self._process = subprocess.Popen(
                [*command, str(other.fileno()), str(limits.megabytes), str(most_seconds)],
                pass_fds=[other.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            # The answer to an empty message comes when this package is loaded.
            self._deadline = time.monotonic() + STARTING_SECONDS
            self._ask({}, f"this package had not loaded after {STARTING_SECONDS:g} s")
            self._deadline = time.monotonic() + limits.seconds
            made = self._ask({"policy": text})
        except BaseException:
            self.close()
            raise
        for field in ("randomized", "pauses"):
            setattr(self, field, made.get(field) is True)
        if made.get("counts_memory") or made.get("reads_deadlines"):
            self.close()
            reason = "counts memory itself or needs a service level: the referee takes neither"
            raise PlayerError("failed", f"policy {text!r} {reason}")

    def must_stop(self) -> bool:
        """Tell whether its time is over."""
        return time.monotonic() > self._deadline

    def close(self) -> None:
        """End the process and those it started."""
        self._channel.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def reset(self, setup: Setup) -> None:
        """Prepare it for a run; its random numbers are those of seed 0."""
        model = setup.service_model
        self._ask({"setup": [setup.memory_limit, [model.name, model.prefill_rounds], 0]})

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Note who joined the queue, to be told with the next question."""
        rows = [
            [
                *(one.index, one.id, one.arrival_time, one.prompt_length),
                [one.prediction.lower, one.prediction.point, one.prediction.upper],
                one.weight,
            ]
            for one in requests
        ]
        self._events.append(["arrive", rows, _snapshot(state)])

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Note who finished."""
        self._events.append(["complete", [one.index for one in requests], _snapshot(state)])

    def decide(self, state: State) -> Decision:
        """Have it decide."""
        answer = self._question("decide", state)
        try:
            start, evict, hold = ([*map(int, answer[part])] for part in ("start", "evict", "hold"))
            wake = answer["wake"]
            return Decision(start, evict, hold, None if wake is None else int(wake))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise PlayerError("failed", f"it answered {answer!r:.200}") from None

    def drain(self, state: State) -> bool:
        """Ask it whether it drops a rule at the end of the requests."""
        return self._question("drain", state).get("drain") is True

    def _question(self, asks: str, state: State) -> dict[str, Any]:
        events, self._events = self._events, []
        return self._ask({"events": events, "state": _snapshot(state), "asks": asks})

    def _ask(self, message: dict[str, Any], too_late: str = "") -> dict[str, Any]:
        try:
            self._wait()
            self._channel.sendall(json.dumps(message).encode() + b"\n")
            line = self._line()
            answer = json.loads(line)
        except TimeoutError:
            reason = too_late or f"it had not decided after {self._limits.seconds:g} s"
            raise PlayerError("time-limit", reason) from None
        except (OSError, EOFError) as error:
            raise PlayerError("died", f"its process ended: {error}") from None
        except (ValueError, RecursionError):
            raise PlayerError("failed", "what it answered is no JSON") from None
        if not isinstance(answer, dict):
            raise PlayerError("failed", f"it answered {answer!r:.200}")
        if "status" in answer:
            over = f"it needs more than {self._limits.megabytes} MB"
            is_memory = answer["status"] == "memory-limit"
            raise PlayerError(*(("memory-limit", over) if is_memory else ("failed", _said(answer))))
        return answer

    def _wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._channel.settimeout(left)

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            self._wait()
            part = self._channel.recv(2**16)
            if not part:
                raise EOFError("no more was heard of it")
            self._rest += part
            if len(self._rest) > LARGEST_ANSWER:
                raise EOFError("its answer has no end")
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def hide_memory() -> None:
    """Keep other processes of this user from reading this one's memory, where that can be had."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_NOT_DUMPABLE, 0, 0, 0, 0)


def _said(answer: dict[str, Any]) -> str:
    return " ".join(str(answer.get("reason")).split())[:300]


def _snapshot(state: State) -> list[Any]:
    batch = [[index, one.start_round, one.rounds_held] for index, one in state.running.items()]
    facts = [state.memory_limit, state.round_index, state.time, state.memory]
    return [*facts, state.waiting_count, batch]


def check_limits(limits: Limits) -> None:
    """Refuse limits that nothing could keep, and systems that keep none.

    Raises
    ------
    OSError
        This is Windows.
    InvalidValueError, InvalidTypeError
        One is not above 0, or longer than a day.
    """
    if not hasattr(os, "killpg"):
        reason = "the referee runs on Linux and macOS: Windows cannot confine a policy's process"
        raise OSError(errno.ENOTSUP, reason)
    as_number(limits.seconds, "referee", "seconds", above=0, maximum=86400)
    as_integer(limits.megabytes, "referee", "megabytes", minimum=1)
