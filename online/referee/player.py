"""Plays a policy in a process of its own, which is never told more than a policy may see.

A line of JSON comes with what happened since the last one, and a line goes back with what the
policy decides. No instance, no future arrival and no true output length is ever in this process.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from online.batch_time.service_model import ServiceModel
from online.policy_interface.policy import (
    Decision,
    Meters,
    Policy,
    PolicyError,
    RunningRequest,
    Setup,
    State,
    UndeclaredGenerator,
    VisibleRequest,
)
from online.policy_interface.predictions import Prediction
from online.policy_interface.specs import read_policy

MEGABYTE = 2**20
LONGEST_REASON = 300


def main() -> None:
    """Serve one run: the arguments are a socket's number, and the megabytes and seconds allowed."""
    channel = socket.socket(fileno=int(sys.argv[1])).makefile("rwb")
    silence = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        os.dup2(silence, output)
    sys.dont_write_bytecode = True
    limit_resources(*map(int, sys.argv[2:4]))
    player = _Player()
    for line in channel:
        try:
            answer = json.dumps(player.answer(json.loads(line)))
        except MemoryError:
            answer = json.dumps({"status": "memory-limit"})
        except BaseException as error:  # noqa: BLE001 (whatever a policy raises)
            reason = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
            answer = json.dumps({"status": "failed", "reason": reason})
        channel.write(answer.encode() + b"\n")
        channel.flush()


def limit_resources(megabytes: int, seconds: int) -> None:
    """Let this process take so much more memory than it has, and so much time; end its writing."""
    with suppress(ImportError, OSError):
        import resource

        with open("/proc/self/statm", encoding="utf-8") as counts:
            pages = int(counts.read().split()[0])
        most = pages * resource.getpagesize() + megabytes * MEGABYTE
        for kind, limit in (
            (resource.RLIMIT_AS, most),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, seconds),
        ):
            # Whoever started the referee may have set a lower limit, which cannot be raised.
            before = resource.getrlimit(kind)[1]
            allowed = limit if before == resource.RLIM_INFINITY else min(limit, before)
            resource.setrlimit(kind, (allowed, allowed))


class _Player:
    """The policy, and what it has been told so far."""

    def __init__(self) -> None:
        self.policy: Policy
        self.requests: dict[int, VisibleRequest] = {}

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        if not message:
            return {}
        if "policy" in message:
            self.policy = policy = read_policy(message["policy"]).make()
            fields = ("randomized", "pauses", "counts_memory", "reads_deadlines")
            return {field: bool(getattr(policy, field)) for field in fields}
        if "setup" in message:
            memory_limit, model, seed = message["setup"]
            rng = (
                np.random.default_rng([seed, 2])
                if self.policy.randomized
                else UndeclaredGenerator(self.policy.name)
            )
            self.policy.reset(Setup(memory_limit, ServiceModel(*model), rng))
            return {}
        for kind, content, snapshot in message["events"]:
            if kind == "arrive":
                self.policy.arrive([self._seen(row) for row in content], self._state(snapshot))
            else:
                done = [self.requests.pop(index) for index in content]
                self.policy.complete(done, self._state(snapshot))
        state = self._state(message["state"])
        if message["asks"] == "drain":
            return {"drain": bool(self.policy.drain(state))}
        return _plain(self.policy.decide(state), self.policy.name)

    def _seen(self, row: list[Any]) -> VisibleRequest:
        index, identifier, arrival_time, prompt_length, prediction, weight = row
        return self.requests.setdefault(
            index,
            VisibleRequest(
                index, identifier, arrival_time, prompt_length, Prediction(*prediction), weight
            ),
        )

    def _state(self, snapshot: list[Any]) -> State:
        memory_limit, round_index, time, memory, waiting, batch = snapshot
        meters = Meters()
        meters.round_index, meters.time = round_index, time
        meters.memory, meters.waiting_count = memory, waiting
        running = {}
        for index, start_round, held in batch:
            running[index] = one = RunningRequest(self.requests[index], meters)
            one.start_round = start_round
            one.prompt_left = 0 if one.rounds_run(round_index) else one.prompt_left
            one.count_held(held)
        return State(memory_limit, running, meters)


def _plain(decision: object, name: str) -> dict[str, Any]:
    if not isinstance(decision, Decision):
        raise PolicyError(f"policy {name!r}: decide() returned {decision!r} instead of a Decision")
    if decision.prefill or decision.preempt or decision.reuse:
        raise PolicyError(f"policy {name!r}: the referee takes start, evict, hold and wake only")
    parts = {part: [int(i) for i in getattr(decision, part)] for part in ("start", "evict", "hold")}
    return {**parts, "wake": None if decision.wake is None else int(decision.wake)}


if __name__ == "__main__":
    main()
