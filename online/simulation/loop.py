"""The loop from decision to decision, for every policy, arrival source and batch time.

At a decision epoch the order is: completions release memory, arrivals become visible, the policy
decides, the next round runs. Between epochs nothing that a policy could react to happens, so the
loop jumps from epoch to epoch: to the next completion, arrival, requested wake-up, or the round
before memory would overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from instances import Instance, InvalidValueError, Workload
from instances.problem.arrival_source import ArrivalSource, batch_time_of, memory_rule_of
from instances.service_level import ServiceLevel
from online.batch_time.service_model import ServiceModel
from online.policy_interface.policy import (
    Decision,
    DecisionStoppedError,
    Policy,
    PolicyError,
    Setup,
    UndeclaredGenerator,
    VisibleRequest,
)
from online.policy_interface.predictions import PredictionModel

from .recorder import Recorder
from .run import Run
from .run_columns import RunStatus
from .stored_tokens import machine_for

IDLE_EPOCHS = 10_000
"""Decisions at one epoch, beyond the requests waiting, after which a run counts as caught."""

FRUITLESS_LIFETIMES = 200
"""Rounds without completion or arrival, in lifetimes of the longest request, that end a run."""


class Simulation:
    """One machine, its policy and what arrives, run up to any time at which all arrivals are known.

    Attributes
    ----------
    status : RunStatus or None
        How it ended; None as long as it goes on.
    resume_at : float
        Time that the horizon of the machine has to reach, or an arrival to come before, until it
        can go on.
    """

    def __init__(
        self,
        source: ArrivalSource,
        policy: Policy,
        seed: int,
        predictions: PredictionModel,
        service_model: ServiceModel,
        levels: Iterator[ServiceLevel | None],
    ) -> None:
        # Separate streams: a policy that draws more must not change predictions or arrivals.
        streams = [np.random.default_rng([seed, part]) for part in range(3)]
        source.reset(streams[0])
        self.status: RunStatus | None = None
        self.source = source
        self.policy = policy
        self.seed = seed
        self._service_model = service_model
        self.predictions = predictions
        self.prediction_rng = streams[1]
        self._levels = levels
        self.rule = rule = memory_rule_of(source)
        self._usable = rule.limit(source.memory_limit)
        batch_time = batch_time_of(source)
        self.machine, service_model = machine_for(
            policy, source.memory_limit, service_model, batch_time, rule
        )
        limit = self.machine.state.memory_limit
        self.recorder = Recorder(timed=batch_time is not None)
        self.decisions = 0
        self._views: list[VisibleRequest] = []
        self._waiting: set[int] = set()
        self._completed_now: list[int] = []
        self._loop_states: set[Any] = set()
        self._previous_arrival: float = 0
        self._longest_rounds = 1
        self._progress_round = 0
        self._starts_seen = False
        self._epoch_round = -1
        self._epoch_decisions = 0
        self.drain_round: int | None = None
        self._rng = streams[2] if policy.randomized else UndeclaredGenerator(policy.name)
        self._setup = Setup(limit, service_model, self._rng, rule, batch_time)

    def begin(self, max_rounds: int | None, should_stop: Callable[[], bool] | None) -> None:
        """Prepare the policy, and run up to the horizon of the machine."""
        self._steps = self._loop(max_rounds, should_stop)
        self.proceed()

    def proceed(self) -> None:
        """Run up to the horizon of the machine."""
        try:
            self.resume_at = next(self._steps)
            return
        except StopIteration as ended:
            self.status = self.status or ended.value
        except DecisionStoppedError:
            self.status = "time-limit"
        except SystemExit as error:
            # It would end whatever runs the policy, and may speak of success.
            raise RuntimeError(f"policy {self.policy.name!r} asked to exit: {error!r}") from error
        self.resume_at = math.inf

    def finish(self, problem: Instance | Workload | None, **known: Any) -> Run:
        """Return the record, see `Recorder.finish`."""
        return self.recorder.finish(
            self.source,
            problem,
            self.machine,
            status=self.status,
            policy_name=self.policy.name,
            seed=self.seed,
            decisions=self.decisions,
            service_model=self._service_model,
            drain_round=self.drain_round,
            **known,
        )

    def _loop(  # noqa: C901
        self, max_rounds: int | None, should_stop: Callable[[], bool] | None
    ) -> Generator[float, None, RunStatus]:
        """Go from epoch to epoch.

        Where it cannot go on before more arrivals are known, it yields the time up to which they
        have to be, infinity if the next one has to be itself.
        """
        machine, policy, state = self.machine, self.policy, self.machine.state
        policy.reset(self._setup)
        policy.should_stop = should_stop
        while True:
            while state.time >= machine.horizon:
                yield state.time
            self._admit_arrivals()
            machine.meters.waiting_count = len(self._waiting)
            if not machine.running and not self._waiting:
                if self._completed_now:
                    # An adaptive source may answer the last completions with new requests.
                    self._observe(Decision())
                next_arrival = yield from self._next_arrival()
                if next_arrival is None:
                    return "completed"
                if max_rounds is not None and state.round_index >= max_rounds:
                    return "round-limit"
                unit = machine.batch_time is None
                machine.idle_until(self._capped(next_arrival, max_rounds if unit else None))
                continue
            if max_rounds is not None and state.round_index >= max_rounds:
                return "round-limit"
            if should_stop is not None and should_stop():
                return "time-limit"
            if self._is_fruitless():
                return "livelock" if self._starts_seen else "stalled"
            decision = policy.decide(state)
            self.decisions += 1
            if not isinstance(decision, Decision):
                raise PolicyError(
                    f"policy {policy.name!r}, round {state.round_index + 1}: decide() returned "
                    f"{decision!r} instead of a Decision"
                )
            if self._apply(decision):
                return "livelock"
            self._observe(decision)
            # Where everything is held, nothing runs; in the round model the rounds pass anyway.
            paused = len(set(decision.hold)) == len(machine.running)
            if paused and (yield from self._drains(decision)):
                continue
            if not machine.running or (paused and machine.batch_time is not None):
                if not (yield from self._wait(decision, max_rounds)):
                    return "stalled"
                continue
            stretches, pause, finished = yield from machine.advance(
                decision, self.source.next_arrival, max_rounds, policy.name
            )
            self.recorder.ran(stretches, pause)
            self._complete(finished)

    def _next_arrival(self) -> Generator[float, None, float | None]:
        """Return when the next request arrives, once that is known; None if there is none."""
        while (arrival := self.source.next_arrival()) is None and self._more_may_come:
            yield math.inf
        return arrival

    @property
    def _more_may_come(self) -> bool:
        """Tell whether requests may arrive, or may yet be sent here by a router."""
        return self.machine.horizon < math.inf or self.source.next_arrival() is not None

    def _admit_arrivals(self) -> None:
        state = self.machine.state
        released = self.source.release(state.time)
        if not released:
            return
        self._loop_states.clear()
        self._note_progress()
        views: list[VisibleRequest] = []
        for arrival in released:
            if arrival.time < self._previous_arrival or arrival.time > state.time:
                raise InvalidValueError(
                    f"request {arrival.id!r}",
                    "arrival time",
                    arrival.time,
                    f"is out of order at time {state.time}",
                )
            self._previous_arrival = arrival.time
            index = len(self._views)
            identifier = index if arrival.id is None else arrival.id
            peak = arrival.prompt_length + arrival.output_length
            if peak - self.rule.unstored > self._usable:
                told = f" with {self.rule.told}" if self.rule.told else ""
                raise InvalidValueError(
                    f"request {identifier!r}",
                    "prompt_length + output_length",
                    peak,
                    f"exceeds memory_limit = {self.source.memory_limit}{told}: "
                    "the request can never run",
                )
            prediction = self.predictions.predict(
                arrival.prompt_length, arrival.output_length, self.prediction_rng
            )
            view = VisibleRequest(
                index,
                identifier,
                arrival.time,
                arrival.prompt_length,
                prediction,
                arrival.weight,
                next(self._levels),
            )
            self._views.append(view)
            self._waiting.add(index)
            views.append(view)
            self.machine.know(arrival.output_length)
            self._longest_rounds = max(
                self._longest_rounds,
                # A prompt in chunks takes up to a round a token.
                arrival.prompt_length + self.machine.service_model.rounds(arrival.output_length),
            )
            self.recorder.arrival(arrival, identifier)
        self.policy.arrive(views, state)

    def _apply(self, decision: Decision) -> bool:
        """Carry out evictions and starts; True when the run is caught in a loop."""
        machine, state = self.machine, self.machine.state
        for index in decision.evict:
            if index not in machine.running:
                raise self._error(index, "was evicted but is not running")
            self.recorder.end_attempt(index, state.round_index, completed=False)
            machine.evict(index)
        for index in decision.preempt:
            if index not in machine.running:
                raise self._error(index, "was preempted but is not running")
            self.recorder.end_attempt(index, state.round_index, completed=False)
            machine.preempt(index)
        self._starts_seen = self._starts_seen or bool(decision.start)
        for index in decision.start:
            if index not in self._waiting:
                raise self._error(index, "was started but is not waiting")
            self._waiting.remove(index)
            reused = decision.reuse.get(index, 0) if decision.reuse else 0
            if reused and not self.policy.counts_memory:
                raise self._error(index, "was to reuse tokens by a policy that counts no memory")
            kept = machine.start(self._views[index], reused)
            self.recorder.start_attempt(index, state.round_index, state.time, kept, reused)
        for index in decision.hold:
            if index not in machine.running:
                raise self._error(index, "was held but is not running")
        if decision.prefill:
            self._check_prefill(decision)
        machine.meters.waiting_count = len(self._waiting)
        sent_back = [*decision.evict, *decision.preempt]
        if sent_back:
            self._waiting.update(sent_back)
            machine.meters.waiting_count = len(self._waiting)
            self.policy.arrive([self._views[index] for index in sent_back], state)
            return self._is_loop()
        return False

    def _check_prefill(self, decision: Decision) -> None:
        for index, tokens in decision.prefill.items():
            running = self.machine.running.get(index)
            if running is None:
                raise self._error(index, "was allotted prompt tokens but is not running")
            if index in decision.hold:
                raise self._error(index, "was allotted prompt tokens and held")
            if not 0 <= tokens <= running.prompt_left:
                raise self._error(
                    index,
                    f"was allotted {tokens} prompt tokens and has {running.prompt_left} left",
                )

    def _drains(self, decision: Decision) -> Generator[float, None, bool]:
        """Tell whether the policy, told that nothing more will come, wants to be asked again."""
        sent_back = decision.evict or decision.preempt
        if sent_back or decision.wake is not None or self.drain_round is not None:
            return False
        if type(self.policy).drain is Policy.drain:
            return False
        if (yield from self._next_arrival()) is not None:
            return False
        if not self.policy.drain(self.machine.state):
            return False
        self.drain_round = self.machine.state.round_index
        return True

    def _note_progress(self) -> None:
        self._progress_round = self.machine.state.round_index
        self._starts_seen = False

    def _is_fruitless(self) -> bool:
        """Tell whether no arrival or completion has come for so long that none ever will."""
        now = self.machine.state.round_index
        if now != self._epoch_round:
            self._epoch_round, self._epoch_decisions = now, 0
        self._epoch_decisions += 1
        if self._epoch_decisions > IDLE_EPOCHS + len(self._waiting):
            return True
        if self.policy.always_ends:
            return False
        patience = IDLE_EPOCHS + FRUITLESS_LIFETIMES * self._longest_rounds
        # A far-off arrival is no sign of a loop: count from there.
        return now - self._progress_round > patience and not self._more_may_come

    @staticmethod
    def _capped(time: float, max_rounds: int | None) -> float:
        return time if max_rounds is None else min(time, max_rounds)

    def _is_loop(self) -> bool:
        """Tell whether queue and batch occurred before with no arrival or completion between."""
        past = self.policy.memory_of_past()
        if past is None or self.policy.randomized or self._more_may_come:
            return False
        if self.machine.tokens_kept:
            # What the queue keeps grows from preemption to preemption: no state comes back.
            return False
        state = self.machine.state
        batch = tuple(
            (index, running.rounds_run(state.round_index), running.prompt_left)
            for index, running in state.running.items()
        )
        # The queue is what is neither running nor done, so the batch alone tells it.
        fingerprint = (batch, past)
        if fingerprint in self._loop_states:
            return True
        self._loop_states.add(fingerprint)
        return False

    def _observe(self, decision: Decision) -> None:
        if self.source.adaptive:
            ids = [view.id for view in self._views]
            self.source.observe(
                self.recorder.observation(
                    self.machine.state,
                    [ids[index] for index in decision.start],
                    [ids[index] for index in (*decision.evict, *decision.preempt)],
                    [ids[index] for index in self._completed_now],
                )
            )
        self._completed_now = []

    def _wait(self, decision: Decision, max_rounds: int | None) -> Generator[float, None, bool]:
        """Let time pass on an idle machine; False when nothing would ever happen."""
        machine = self.machine
        unit = machine.batch_time is None
        if self.policy.counts_memory and not unit:
            if decision.wake is not None:
                # A step in which nothing runs takes no time.
                return True
        elif (decision.evict or decision.preempt) and not self.policy.counts_memory:
            # An emptied batch: ask again at the same epoch, with the evicted in the queue.
            return True
        if decision.wake is not None and unit:
            until: float = max(decision.wake, machine.state.round_index + 1)
            while until > machine.horizon and self.source.next_arrival() is None:
                yield until
            next_arrival = self.source.next_arrival()
            until = until if next_arrival is None else min(until, next_arrival)
        else:
            next_arrival = yield from self._next_arrival()
            if next_arrival is None:
                return False
            until = next_arrival
        machine.idle_until(self._capped(until, max_rounds if unit else None))
        return True

    def _complete(self, finished: list[int]) -> None:
        if not finished:
            return
        state = self.machine.state
        self._loop_states.clear()
        self._note_progress()
        for index in finished:
            self.recorder.end_attempt(index, state.round_index, completed=True)
        self._completed_now = finished
        self.policy.complete([self._views[index] for index in finished], state)

    def _error(self, index: int, what: str) -> PolicyError:
        is_index = isinstance(index, int) and 0 <= index < len(self._views)
        known = self._views[index].id if is_index else index
        return PolicyError(
            f"policy {self.policy.name!r}, round {self.machine.state.round_index + 1}: "
            f"request {known!r} {what}"
        )
