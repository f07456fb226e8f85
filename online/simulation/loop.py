"""The loop from decision to decision, for every policy, arrival source and batch time.

At a decision epoch the order is: completions release memory, arrivals become visible, the policy
decides, the next round runs. Between epochs nothing that a policy could react to happens, so the
loop jumps from epoch to epoch: to the next completion, arrival, requested wake-up, or the round
before memory would overflow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from instances import Instance, InvalidValueError, Workload
from instances.problem.arrival_source import (
    Arrival,
    ArrivalSource,
    Observation,
    batch_time_of,
    memory_rule_of,
)
from instances.problem.request import RequestId
from instances.service_level import ServiceLevel
from online.policy_interface.policy import (
    Decision,
    DecisionStoppedError,
    Policy,
    PolicyError,
    Setup,
    VisibleRequest,
    check_draws,
)
from online.policy_interface.predictions import Prediction, PredictionModel

from .columns import RunStatus
from .machine import Machine
from .recorder import Recorder
from .run import Run

IDLE_EPOCHS = 10_000
"""Decisions at one epoch, beyond the requests waiting, after which a run counts as caught."""

FRUITLESS_LIFETIMES = 200
"""Rounds in which nobody gets further, in lifetimes of the longest request, that end a run."""

FRUITLESS_RETURNS = 100
"""Returns of the same batch, in which nobody gets further, that end a run."""


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
        levels: Iterator[ServiceLevel | None],
        prefill_rounds: int = 0,
    ) -> None:
        # Separate streams: a policy that draws more must not change predictions or arrivals.
        streams = [np.random.default_rng([seed, part]) for part in range(3)]
        source.reset(streams[0])
        self.status: RunStatus | None = None
        self.source = source
        self.policy = policy
        self.seed = seed
        self.predictions = predictions
        self.prediction_rng = streams[1]
        self._levels = levels
        rule, batch_time = memory_rule_of(source), batch_time_of(source)
        self.machine = Machine(source.memory_limit, batch_time, rule, prefill_rounds)
        self.recorder = Recorder()
        self.decisions = 0
        self._views: list[VisibleRequest] = []
        self._completed_now: list[int] = []
        # Batches that sent requests back, and rounds in which each request has advanced at most.
        self._batches: Counter[Any] = Counter()
        self._furthest: dict[int, int] = {}
        self._previous_arrival: float = 0
        self._longest_rounds = 1
        self._progress_round = 0
        self._starts_seen = False
        self._epoch_round = -1
        self._epoch_decisions = 0
        self.drain_round: int | None = None
        limit = source.memory_limit
        self._setup = Setup(limit, streams[2], rule, batch_time, prefill_rounds=prefill_rounds)

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

    def finish(self, problem: Instance | Workload | None, router_name: str | None = None) -> Run:
        """Return the record, see `Recorder.finish`."""
        check_draws(self.policy, self._setup.rng, [self.seed, 2])
        return self.recorder.finish(
            self.source,
            problem,
            self.machine,
            status=self.status,
            policy_name=self.policy.name,
            seed=self.seed,
            decisions=self.decisions,
            drain_round=self.drain_round,
            router_name=router_name,
        )

    def _loop(  # noqa: C901
        self, max_rounds: int | None, should_stop: Callable[[], bool] | None
    ) -> Generator[float, None, RunStatus]:
        """Go from epoch to epoch.

        Where it cannot go on before more arrivals are known, it yields the time up to which they
        have to be, infinity if the next one has to be itself.
        """
        machine, policy, state = self.machine, self.policy, self.machine.state
        policy.count = None
        policy.reset(self._setup)
        policy.should_stop, machine.count = should_stop, policy.count
        while True:
            while machine.time >= machine.horizon:
                yield machine.time
            self._admit_arrivals()
            if not machine.running and not machine.waiting:
                if self._completed_now:
                    # An adaptive source may answer the last completions with new requests.
                    self._observe(Decision())
                next_arrival = yield from self._next_arrival()
                if next_arrival is None:
                    return "completed"
                if max_rounds is not None and machine.round_index >= max_rounds:
                    return "round-limit"
                unit = machine.batch_time is None
                machine.idle_until(self._capped(next_arrival, max_rounds if unit else None))
                continue
            if max_rounds is not None and machine.round_index >= max_rounds:
                return "round-limit"
            if should_stop is not None and should_stop():
                return "time-limit"
            if self._is_fruitless():
                return "livelock" if self._starts_seen else "stalled"
            decision = policy.decide(state)
            self.decisions += 1
            if not isinstance(decision, Decision):
                raise PolicyError(
                    f"policy {policy.name!r}, round {machine.round_index + 1}: decide() returned "
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
            wake = decision.wake
            if wake is None:
                changes = machine.waiting or decision.hold or decision.prefill
                wake = machine.round_index + 1 if changes else math.inf
            stretches, finished = yield from machine.advance(
                decision, wake, self.source.next_arrival, max_rounds, policy.name
            )
            self.recorder.stretches += stretches
            self._complete(finished)

    def _next_arrival(self) -> Generator[float, None, float | None]:
        """Return when the next request arrives, once that is known; None if there is none."""
        while (arrival := self.source.next_arrival()) is None and self._more_may_come:
            yield math.inf
        return arrival

    @property
    def _more_may_come(self) -> bool:
        """Return whether requests may arrive, or may yet be sent here by a router."""
        return self.machine.horizon < math.inf or self.source.next_arrival() is not None

    def _admit_arrivals(self) -> None:
        machine = self.machine
        released = self.source.release(machine.time)
        if not released:
            return
        self._note_progress()
        views: list[VisibleRequest] = []
        for arrival in released:
            if arrival.time < self._previous_arrival or arrival.time > machine.time:
                raise InvalidValueError(
                    f"request {arrival.id!r}",
                    "arrival time",
                    arrival.time,
                    f"is out of order at time {machine.time}",
                )
            self._previous_arrival = arrival.time
            prompt, output = arrival.prompt_length, arrival.output_length
            view = visible(
                len(self._views),
                arrival,
                self.predictions.predict(prompt, output, self.prediction_rng),
                next(self._levels),
                self._setup,
            )
            self._check_fits(view.id, prompt + output)
            self._views.append(view)
            machine.waiting[view.index] = view
            views.append(view)
            machine.register_request(output)
            # A prompt in chunks takes up to a round a token.
            longest = prompt + output + machine.prefill_rounds
            self._longest_rounds = max(self._longest_rounds, longest)
            self.recorder.arrivals.append(arrival._replace(id=view.id))
        self.policy.arrive(views, machine.state)

    def _check_fits(self, identifier: RequestId, peak: int) -> None:
        rule, limit = self.machine.rule, self.source.memory_limit
        if peak - rule.unstored > rule.limit(limit):
            told = f" with {rule.told}" if rule.told else ""
            raise InvalidValueError(
                f"request {identifier!r}",
                "prompt_length + output_length",
                peak,
                f"exceeds memory_limit = {limit}{told}: the request can never run",
            )

    def _apply(self, decision: Decision) -> bool:
        """Carry out evictions and starts; True when the run is caught in a loop."""
        machine, recorder, now = self.machine, self.recorder, self.machine.round_index
        sent_back = [*decision.evict, *decision.preempt]
        gets_further = False
        for place, index in enumerate(sent_back):
            evicted = place < len(decision.evict)
            if index not in machine.running:
                what = "evicted" if evicted else "preempted"
                raise self._error(index, f"was {what} but is not running")
            run = machine.running[index].rounds_run(now)
            if run > self._furthest.get(index, 0):
                self._furthest[index], gets_further = run, True
            recorder.sent_back.append(index)
            if evicted:
                recorder.evicted[index] = now
                machine.evict(index)
            else:
                machine.preempt(index)
        if gets_further:
            self._note_progress()
        self._starts_seen = self._starts_seen or bool(decision.start)
        for index in decision.start:
            if index not in machine.waiting:
                raise self._error(index, "was started but is not waiting")
            view = machine.waiting.pop(index)
            machine.start(view, decision.reuse.get(index, 0) if decision.reuse else 0)
            recorder.started[index] = machine.time
        for index in decision.hold:
            if index not in machine.running:
                raise self._error(index, "was held but is not running")
        if decision.prefill:
            self._check_prefill(decision)
        if not sent_back:
            return False
        views = [self._views[index] for index in sent_back]
        machine.waiting.update(zip(sent_back, views, strict=True))
        self.policy.arrive(views, machine.state)
        return not gets_further and self._is_loop()

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
        """Return whether the policy, told that nothing more will come, wants to be asked again."""
        sent_back = decision.evict or decision.preempt
        if sent_back or decision.wake not in (None, math.inf) or self.drain_round is not None:
            return False
        if type(self.policy).drain is Policy.drain:
            return False
        if (yield from self._next_arrival()) is not None:
            return False
        if not self.policy.drain(self.machine.state):
            return False
        self.drain_round = self.machine.round_index
        return True

    def _note_progress(self) -> None:
        self._progress_round = self.machine.round_index
        self._starts_seen = False
        self._batches.clear()

    def _is_fruitless(self) -> bool:
        """Return whether nothing has come of the decisions for so long that nothing ever will.

        What comes of them is an arrival, a completion, or a request that gets further than before.
        """
        now = self.machine.round_index
        if now != self._epoch_round:
            self._epoch_round, self._epoch_decisions = now, 0
        self._epoch_decisions += 1
        if self._epoch_decisions > IDLE_EPOCHS + len(self.machine.waiting):
            return True
        patience = IDLE_EPOCHS + FRUITLESS_LIFETIMES * self._longest_rounds
        # A far-off arrival is no sign of a loop: count from there.
        return now - self._progress_round > patience and not self._more_may_come

    def _is_loop(self) -> bool:
        """Return whether the same batch has come back too often and nobody got further."""
        if self.policy.randomized or self._more_may_come:
            return False
        now = self.machine.round_index
        batch = tuple(
            (index, one.rounds_run(now), one.prompt_left)
            for index, one in self.machine.running.items()
        )
        self._batches[batch] += 1
        return self._batches[batch] > FRUITLESS_RETURNS

    @staticmethod
    def _capped(time: float, max_rounds: int | None) -> float:
        return time if max_rounds is None else min(time, max_rounds)

    def _observe(self, decision: Decision) -> None:
        if self.source.adaptive:
            ids, state = [view.id for view in self._views], self.machine
            groups = (decision.start, (*decision.evict, *decision.preempt), self._completed_now)
            named = [tuple(ids[index] for index in group) for group in groups]
            self.source.observe(Observation(state.round_index, state.time, *named))
        self._completed_now = []

    def _wait(self, decision: Decision, max_rounds: int | None) -> Generator[float, None, bool]:
        """Let time pass on an idle machine; False when nothing would ever happen."""
        machine, wake = self.machine, decision.wake
        unit = machine.batch_time is None
        wakes = unit and wake is not None and wake < math.inf
        at_once = not unit and wake is not None and wake <= machine.round_index
        if at_once or ((decision.evict or decision.preempt) and not wakes):
            # An emptied batch: ask again at the same epoch, with those sent back in the queue.
            return True
        if wakes:
            until: float = max(wake or 0, machine.round_index + 1)
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
        machine = self.machine
        self._note_progress()
        for index in finished:
            self.recorder.completed[index] = machine.round_index
        self._completed_now = finished
        self.policy.complete([self._views[index] for index in finished], machine.state)

    def _error(self, index: int, what: str) -> PolicyError:
        is_index = isinstance(index, int) and 0 <= index < len(self._views)
        known = self._views[index].id if is_index else index
        return PolicyError(
            f"policy {self.policy.name!r}, round {self.machine.round_index + 1}: "
            f"request {known!r} {what}"
        )


def visible(
    index: int,
    arrival: Arrival,
    prediction: Prediction,
    level: ServiceLevel | None,
    setup: Setup,
) -> VisibleRequest:
    """Return what policies and routers may know of a request, the ``index``-th to arrive."""
    rule = setup.memory_rule
    peak = rule.held(arrival.prompt_length + prediction.upper - rule.unstored)
    return VisibleRequest(
        index,
        index if arrival.id is None else arrival.id,
        arrival.time,
        arrival.prompt_length,
        prediction,
        arrival.weight,
        level,
        min(peak, rule.limit(setup.memory_limit)),
    )
