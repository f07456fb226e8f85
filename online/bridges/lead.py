"""Control of an engine by a policy: the engine's events, and the orders of the policy.

A step of the engine is a round. The policy sees a machine of the simulator. After every step, this
machine repeats what the engine has run. The engine may refuse to start a request, or take it out of
its batch because memory is lacking. The policy then sees that the request returns to the queue. A
running request whose client has cancelled it is reported to the policy as completed. A waiting
request that was cancelled stays in the policy's queue, and completes in the round in which the
policy starts it.

An engine cannot take back tokens that it has sent. Many policies evict requests whose outputs
become longer than predicted. The engine preempts such a request instead, so its tokens are kept.

This module imports no engine. `online.bridges.vllm` calls `Lead.orders` before each step and
`Lead.ran` after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from instances.errors import InvalidValueError
from instances.problem.batches import BatchTime
from instances.problem.memory_rule import MemoryRule
from instances.service_level import ServiceLevel
from online.policy_interface.policy import (
    Decision,
    Policy,
    PolicyError,
    Setup,
    State,
    VisibleRequest,
)
from online.policy_interface.predictions import Prediction
from online.simulation.machine import Machine

UNKNOWN = 1 << 40
"""Output length of requests, and memory limit, of the machine that repeats an engine's steps. It is
practically infinite, since only the engine knows when requests end and which requests fit."""


class Orders(NamedTuple):
    """Orders for the next step of an engine, by request.

    Attributes
    ----------
    preempt : list[str]
        Requests to take out of the batch; their output tokens are kept.
    start : list[str]
        Waiting requests to admit, in this order.
    most_tokens : dict[str, int]
        Largest number of tokens that a request may process in the step. 0 holds the request.
    """

    preempt: list[str]
    start: list[str]
    most_tokens: dict[str, int]


def read_prediction(given: Any, most: int) -> Prediction | None:
    """Return the prediction of an output length that a client sent. None if it cannot be read.

    Parameters
    ----------
    given : Any
        A number of tokens, or a list [least, most] or [least, likeliest, most].
    most : int
        Longest possible output, in tokens. Larger numbers in ``given`` are lowered to this.
    """
    ends = given if isinstance(given, list | tuple) else [given]
    try:
        tokens = [min(most, max(1, round(float(one)))) for one in ends]
    except (TypeError, ValueError, OverflowError):
        return None
    if not 1 <= len(tokens) <= 3 or tokens != sorted(tokens):
        return None
    point = tokens[1] if len(tokens) == 3 else (tokens[0] + tokens[-1]) // 2
    return Prediction(tokens[0], point, tokens[-1])


class Lead:
    """Lets a policy control an engine. It repeats the engine's steps on a machine of the simulator.

    Parameters
    ----------
    policy : Policy
        The policy.
    blocks, block_size : int
        Blocks of memory for requests, and tokens of each block.
    level : ServiceLevel or None, default None
        Service level that the policy sees.
    batch_time : BatchTime or None, default None
        Seconds of a step, for the policy.
    patience : float, default 1.0
        Seconds for which the policy may let the engine idle although it has requests. After this
        time the policy is asked to stop waiting for more requests (`Policy.drain`). If the engine
        then idles for the same time again, an error is raised.

    Attributes
    ----------
    evicted : int
        Number of requests that the policy evicted; the engine preempted them instead.

    Raises
    ------
    InvalidValueError
        The policy needs a service level and a batch time, and one of them is missing.
    """

    def __init__(
        self,
        policy: Policy,
        blocks: int,
        block_size: int,
        *,
        level: ServiceLevel | None = None,
        batch_time: BatchTime | None = None,
        patience: float = 1.0,
    ) -> None:
        if policy.reads_deadlines and (level is None or batch_time is None):
            reason = 'needs "level", such as {"latency": 20} for 20 s, and "batch_time"'
            raise InvalidValueError(None, "policy", policy.name, reason)
        self.policy, self.patience, self.evicted = policy, patience, 0
        self._level, self._batch_time = level, batch_time
        self._rule = MemoryRule(block_size, "next", "chunks")
        self._memory_limit = blocks * block_size
        # Arrived requests that are not yet reported to the policy, by id.
        self._unheard: dict[str, tuple[float, int, Prediction]] = {}
        self._begin()

    def _begin(self) -> None:
        """Begin a new run of the policy, with no request waiting or running."""
        policy, limit, rule = self.policy, self._memory_limit, self._rule
        # The machine has no real memory limit. Otherwise it could raise an error about the policy
        # after a step that the engine has chosen. The state for the policy has the engine's limit.
        self._machine = Machine(UNKNOWN, None, rule)
        self._state = State(self._machine.batch, limit)
        self._views, self._indices = dict[int, VisibleRequest](), dict[str, int]()
        self._count = 0
        self._waiting, self._gone = self._machine.waiting, set[int]()
        self._ended, self._back, self._starting = list[int](), list[int](), list[int]()
        self._decision = Decision()
        self._idle_since: float | None = None
        self._is_idle = self._is_drained = False
        rng = np.random.default_rng([0, 2])
        policy.count = None
        policy.reset(Setup(limit, rng, rule, self._batch_time))

    # --- events of the engine -----------------------------------------------------------------

    def arrive(self, name: str, now: float, lengths: tuple[int, int], given: Any) -> bool:
        """Note an arrived request for the policy. Return whether ``given`` could be read.

        Parameters
        ----------
        name : str
            The request.
        now : float
            The clock, seconds.
        lengths : tuple[int, int]
            Tokens of its prompt, and the largest number of its output tokens.
        given : Any
            The client's prediction of its output length, or None for no prediction. If it is None
            or cannot be read, the longest possible output is predicted.
        """
        prompt, most = lengths
        most = max(1, min(most, self._memory_limit + self._rule.unstored - prompt))
        read = read_prediction(most if given is None else given, most)
        self._unheard[name] = now, prompt, read or Prediction(most, most, most)
        return read is not None

    def end(self, name: str) -> None:
        """Note a request that has ended, or that its client has cancelled."""
        if self._unheard.pop(name, None) is not None or name not in self._indices:
            return
        index = self._indices.pop(name)
        if index in self._waiting:
            self._gone.add(index)
            return
        if index in self._back:
            # The request was preempted, but the policy does not know this yet: it is reported as
            # completed.
            self._back.remove(index)
        self._ended.append(index)

    def orders(self, now: float, running: Collection[str]) -> Orders:
        """Report events to the policy and return the orders for the next step.

        The policy decides only if there are events or its wake-up is due.

        Parameters
        ----------
        now : float
            The clock, seconds.
        running : Collection[str]
            Requests in the engine's batch.

        Raises
        ------
        Exception
            The policy raised an error, or its decision is impossible (`PolicyError`).
        """
        self._machine.batch.time = now
        self._note_preempted(set(running))
        news = bool(self._ended or self._back or self._unheard)
        drained = self._is_idle and self._lets_idle(now, news=news)
        if self._ended:
            ended = [self._views.pop(index) for index in self._ended]
            for index in self._ended:
                self._machine.end(index)
            self._ended = []
            self.policy.complete(ended, self._state)
        if not self._views and not self._unheard:
            if self._is_drained:
                # The policy knows that no more requests arrive. Later arrivals need a new run.
                self._begin()
            return Orders([], [], {})
        arrived = [self._views[index] for index in self._back]
        self._waiting.update((index, self._views[index]) for index in self._back)
        self._back = []
        arrived += [self._view(name, *given) for name, given in self._unheard.items()]
        self._unheard = {}
        if arrived:
            self.policy.arrive(arrived, self._state)
        if not news and not drained and not self._is_due():
            # The policy does not decide again, so held requests remain held.
            return self._orders(Decision(hold=self._decision.hold))
        decision = self.policy.decide(self._state)
        self._check(decision)
        self._decision = decision
        return self._carry_out(decision)

    def ran(self, tokens: Mapping[str, int], admitted: Mapping[str, int]) -> None:
        """Repeat the step that the engine has run on the machine that the policy sees.

        Parameters
        ----------
        tokens : Mapping[str, int]
            Tokens that each request has processed.
        admitted : Mapping[str, int]
            Requests that the engine has started, with the tokens of each that it found stored.
        """
        machine = self._machine
        for name, found in admitted.items():
            index = self._indices[name]
            self._starting.remove(index)
            machine.start(self._views[index])
            machine.running[index].prompt_left -= found
        self._is_idle = not tokens and not self._starting
        # The engine did not start these requests, although the policy ordered it. They wait again,
        # and are reported to the policy before the next step.
        self._back += self._starting
        self._starting = []
        if not self._is_idle:
            self._idle_since = None
        if not tokens:
            return
        hold, prefill = [], {}
        for index, running in machine.running.items():
            processed = tokens.get(str(running.request.id), 0)
            if not processed:
                hold.append(index)
            elif processed < running.prompt_left:
                prefill[index] = processed
        done, wake = Decision(hold=hold, prefill=prefill), machine.batch.round_index + 1
        # The horizon of this machine is infinite, so advance() never yields.
        for _ in machine.advance(done, wake, wake, lambda: None):
            pass

    # --- decisions of the policy --------------------------------------------------------------

    def _view(self, name: str, now: float, prompt_length: int, given: Prediction) -> VisibleRequest:
        index = self._count
        self._count += 1
        rule = self._rule
        peak = rule.held(prompt_length + given.upper - rule.unstored)
        level = self._level
        view = VisibleRequest(index, name, now, prompt_length, given, level=level, peak=peak)
        self._views[index], self._indices[name] = view, index
        self._waiting[index] = view
        self._machine.register_request(UNKNOWN)
        return view

    def _note_preempted(self, running: set[str]) -> None:
        """Preempt on the machine the requests that the engine has taken out of its batch."""
        ended = set(self._ended)
        for index, one in list(self._machine.running.items()):
            if one.request.id not in running and index not in ended:
                self._machine.preempt(index)
                self._back.append(index)

    def _is_due(self) -> bool:
        """Return whether the policy should decide although there was no event.

        This is so in the round of its ``wake``, and before memory would overflow. On an idle
        machine no rounds pass, so the round of its ``wake`` would never come. The policy then
        decides at every step.
        """
        last, machine = self._decision, self._machine
        if self._is_idle or last.prefill or not machine.running:
            return True
        if machine.batch.round_index >= (last.wake or 0) and (
            last.wake or last.hold or machine.waiting
        ):
            return True
        held, count = {index for index in last.hold if index in machine.running}, self.policy.count
        if count is not None:
            return bool(count.excess(self._state) > len(held))
        return machine.batch.next_memory(held) > self._rule.limit(self._memory_limit)

    def _lets_idle(self, now: float, *, news: bool) -> bool:
        """Note since when the policy lets the engine idle. Return whether `Policy.drain` was True.

        `Policy.drain` asks the policy to stop waiting for more requests. It is called if the engine
        has idled for ``patience`` seconds.

        Raises
        ------
        PolicyError
            The engine has idled for too long, even after a call of `Policy.drain`.
        """
        held = {index for index in self._decision.hold if index in self._machine.running}
        if news or len(held) < len(self._machine.running) or self._idle_since is None:
            self._idle_since = now
        if news or now - self._idle_since < self.patience:
            return False
        self._idle_since = now
        if not self._is_drained and self.policy.drain(self._state):
            self._is_drained = True
            return True
        raise PolicyError(
            f"policy {self.policy.name!r} has let none of its {len(self._views)} requests advance "
            f"for {self.patience:g} s"
        )

    def _check(self, decision: Decision) -> None:
        """Raise an error if a decision is impossible.

        Raises
        ------
        PolicyError
            The decision is impossible; the message names the policy and the request.
        """
        name, running = self.policy.name, self._machine.running
        if not isinstance(decision, Decision):
            raise PolicyError(f"policy {name!r}: decide() returned {decision!r}, not a Decision")
        started = set(decision.start)
        if len(started) < len(decision.start) or not started <= self._waiting.keys():
            what = f"{[self._called(index) for index in decision.start]}, not all of them waiting"
            raise PolicyError(f"policy {name!r} started {what}")
        wrong = [index for index in (*decision.evict, *decision.preempt) if index not in running]
        named = (*decision.hold, *decision.prefill)
        wrong += [index for index in named if index not in running and index not in started]
        if wrong:
            what = f"request {self._called(wrong[0])!r}, which is not running"
            raise PolicyError(f"policy {name!r} sent back, held or cut the prompt of {what}")

    def _called(self, index: int) -> Any:
        return self._views[index].id if index in self._views else index

    def _carry_out(self, decision: Decision) -> Orders:
        """Apply a decision to the machine and return its orders."""
        orders, sent_back = self._orders(decision), [*decision.evict, *decision.preempt]
        self.evicted += len(decision.evict)
        for index in sent_back:
            self._machine.preempt(index)
        for index in decision.start:
            del self._waiting[index]
            if index in self._gone:
                self._gone.remove(index)
                self._machine.start(self._views[index])
                self._ended.append(index)
            else:
                self._starting.append(index)
        if sent_back:
            views = [self._views[index] for index in sent_back]
            self._waiting.update(zip(sent_back, views, strict=True))
            self.policy.arrive(views, self._state)
        return orders

    def _orders(self, decision: Decision) -> Orders:
        """Return the orders of a decision, with the engine's names of requests."""
        most = dict.fromkeys(self._names(decision.hold), 0)
        for index, tokens in decision.prefill.items():
            most |= dict.fromkeys(self._names([index]), max(0, int(tokens)))
        sent_back = self._names((*decision.evict, *decision.preempt))
        return Orders(sent_back, self._names(decision.start), most)

    def _names(self, indices: Iterable[int]) -> list[str]:
        """Return the engine's names of these requests, without those that have ended."""
        names = [str(self._views[index].id) for index in indices if index in self._views]
        return [name for name in names if name in self._indices]
