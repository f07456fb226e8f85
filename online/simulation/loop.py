"""The loop from decision to decision, for every policy, arrival source and batch time.

At a decision epoch the order is: completions release memory, arrivals become visible, the policy
decides, the next round runs. Between epochs nothing that a policy could react to happens, so the
loop jumps from epoch to epoch: to the next completion, arrival, requested wake-up, or the round
before memory would overflow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from instances import Instance, InvalidValueError, Workload
from instances.problem.arrival_source import (
    Arrival,
    ArrivalSource,
    Observation,
    batch_time_of,
    memory_rule_of,
)
from online.policy_interface.policy import (
    Decision,
    DecisionStoppedError,
    Policy,
    PolicyError,
    RunningRequest,
    Setup,
    VisibleRequest,
    random_stream,
)
from online.policy_interface.specs import PolicySpec

from .machine import Machine
from .recorder import record
from .run import Run, RunStatus

IDLE_EPOCHS = 10_000
"""Decisions in one round, plus one for each waiting request, after which a run ends as stuck."""

FRUITLESS_LIFETIMES = 200
"""Rounds without progress that end a run, as multiples of the longest request's rounds."""

FRUITLESS_RETURNS = 100
"""Times that the same batch may recur without progress before the run ends as a livelock."""

Reveal = Callable[[int, Arrival], VisibleRequest]
"""Function that makes, from a request's index and its `Arrival`, the request that policies see."""


class Limits(NamedTuple):
    """Limits of a run, after which it ends unfinished.

    Attributes
    ----------
    prefill_rounds : int
        Rounds of each request that process its prompt and emit no token.
    max_rounds : float
        Number of rounds after which the run ends.
    should_stop : Callable or None
        Function called before each decision; the run ends if it returns True.
    """

    prefill_rounds: int
    max_rounds: float
    should_stop: Callable[[], bool] | None


class Simulation:
    """One machine with its policy and arrivals; it can run as far as all arrivals are known.

    Attributes
    ----------
    status : RunStatus
        How the run ended; unset before.
    resume_at : float
        Clock time up to which all arrivals must be known before the run can go on, unless an
        earlier arrival comes. Infinite when the run has ended.
    views : list[VisibleRequest]
        The requests that have arrived, as policies see them.
    decisions : int
        Number of calls of the policy's `decide`.
    drain_round : int or None
        See `Run`.
    """

    status: RunStatus

    def __init__(
        self, source: ArrivalSource, policy: Policy, seed: int, reveal: Reveal, limits: Limits
    ) -> None:
        # Separate random streams: the draws of a policy must not change predictions or arrivals.
        source.reset(np.random.default_rng([seed, 0]))
        self.source, self.policy, self.seed, self._reveal = source, policy, seed, reveal
        self._limits, prefill_rounds = limits, limits.prefill_rounds
        rule, batch_time, limit = memory_rule_of(source), batch_time_of(source), source.memory_limit
        self.machine = Machine(limit, batch_time, rule, prefill_rounds, policy.name)
        self.batch = self.machine.batch
        rng = random_stream(policy, "policy", [seed, 2])
        self.setup = Setup(limit, rng, rule, batch_time, prefill_rounds=prefill_rounds)
        # An idle machine waits until this clock time at most: `max_rounds` in the round model,
        # infinity in continuous time.
        self._latest = limits.max_rounds if batch_time is None else math.inf
        self.views: list[VisibleRequest] = []
        self.decisions = 0
        self.drain_round: int | None = None
        self._completed_now: list[int] = []
        # _batches counts how often each batch occurred after requests were sent back. _furthest has
        # the most rounds of progress that each request has reached.
        self._batches: Counter[Any] = Counter()
        self._furthest: dict[int, int] = {}
        self._longest_rounds, self._progress_round, self._starts_seen = 1, 0, False
        # The round of the last decision, and the number of decisions before that round.
        self._epoch = (-1, 0)
        self._steps = self._loop()

    def proceed(self) -> None:
        """Run to the machine's horizon, up to which all arrivals are known, or to the end."""
        try:
            self.resume_at = next(self._steps)
            return
        except StopIteration as ended:
            self.status = ended.value or self.status
        except DecisionStoppedError:
            self.status = "time-limit"
        except SystemExit as error:
            # sys.exit would end the whole program, perhaps with the exit code of success.
            raise RuntimeError(f"policy {self.policy.name!r} asked to exit: {error!r}") from error
        self.resume_at = math.inf

    def finish(self, problem: Instance | Workload | None, router_name: str | None = None) -> Run:
        """Return the record of the run, in the order of ``problem`` or, if None, of arrival."""
        return record(
            self.source,
            problem,
            self.machine,
            self.views,
            status=self.status,
            policy_name=PolicySpec.of(self.policy).label,
            seed=self.seed,
            decisions=self.decisions,
            drain_round=self.drain_round,
            router_name=router_name,
        )

    def _loop(self) -> Generator[float, None, RunStatus]:  # noqa: C901
        """Run from epoch to epoch and return the status at the end.

        If the run cannot go on before more arrivals are known, it yields the clock time up to which
        all must be known. Infinity means that it needs the next arrival, whenever it is.
        """
        machine, batch, policy = self.machine, self.batch, self.policy
        _, max_rounds, should_stop = self._limits
        policy.count = None
        policy.reset(self.setup)
        policy.should_stop, machine.count = should_stop, policy.count
        while True:
            while batch.time >= machine.horizon:
                yield batch.time
            self._admit_arrivals()
            if not batch.running and not batch.waiting:
                if self._completed_now:
                    # An adaptive source may release new requests in reaction to the last
                    # completions.
                    self._observe(Decision())
                next_arrival = yield from self._next_arrival()
                if next_arrival == math.inf:
                    return "completed"
                if batch.round_index >= max_rounds:
                    return "round-limit"
                machine.idle_until(min(next_arrival, self._latest))
                continue
            if batch.round_index >= max_rounds:
                return "round-limit"
            if should_stop is not None and should_stop():
                return "time-limit"
            if (yield from self._is_fruitless()):
                return "livelock" if self._starts_seen else "stalled"
            decision = self._decide()
            if self._apply(decision) and (yield from self._next_arrival()) == math.inf:
                return "livelock"
            self._observe(decision)
            # If all requests are held, no request advances. In the round model rounds pass
            # nevertheless.
            paused = len(set(decision.hold)) == len(batch.running)
            if paused and (yield from self._drains(decision)):
                continue
            if not batch.running or (paused and machine.batch_time is not None):
                if not (yield from self._wait(decision)):
                    return "stalled"
                continue
            wake = decision.wake
            if wake is None:
                changes = batch.waiting or decision.hold or decision.prefill
                wake = batch.round_index + 1 if changes else math.inf
            self._complete(
                (yield from machine.advance(decision, wake, max_rounds, self.source.next_arrival))
            )

    def _next_arrival(self, latest: float = math.inf) -> Generator[float, None, float]:
        """Return the time of the next arrival, infinity if there is none.

        If no arrival is known, wait until all arrivals up to the time ``latest`` are known.
        """
        while (arrival := self.source.next_arrival()) is None and self.machine.horizon < latest:
            yield latest
        return math.inf if arrival is None else arrival

    def _admit_arrivals(self) -> None:
        released = self.source.release(self.batch.time)
        if not released:
            return
        self._note_progress()
        known = len(self.views)
        for arrival in released:
            view = self._reveal(len(self.views), arrival)
            self._check(view, arrival)
            self.views.append(view)
            self.batch.waiting[view.index] = view
            self.machine.register_request(arrival.output_length)
            # A prompt cut into chunks may take one round for each token.
            longest = arrival.prompt_length + arrival.output_length + self.setup.prefill_rounds
            self._longest_rounds = max(self._longest_rounds, longest)
        self.policy.arrive(self.views[known:], self.machine.state)

    def _check(self, view: VisibleRequest, arrival: Arrival) -> None:
        """Raise `InvalidValueError` if a request is out of order or can never run."""
        rule, limit, now = self.setup.memory_rule, self.setup.memory_limit, self.batch.time
        owner, time = f"request {view.id!r}", arrival.time
        if time > now or (self.views and time < self.views[-1].arrival_time):
            raise InvalidValueError(owner, "arrival time", time, f"is out of order at time {now}")
        if self.setup.batch_time is None and time != int(time):
            raise InvalidValueError(owner, "arrival time", time, "is not a whole number of rounds")
        peak = arrival.prompt_length + arrival.output_length
        if peak - rule.unstored > rule.limit(limit):
            told = f" with {rule.told}" if rule.told else ""
            reason = f"exceeds memory_limit = {limit}{told}: the request can never run"
            raise InvalidValueError(owner, "prompt_length + output_length", peak, reason)

    def _decide(self) -> Decision:
        decision = self.policy.decide(self.machine.state)
        self.decisions += 1
        if not isinstance(decision, Decision):
            raise self.machine.error(f"decide() returned {decision!r} instead of a Decision")
        return decision

    def _apply(self, decision: Decision) -> bool:
        """Carry out evictions and starts; return whether the run is caught in a loop."""
        machine, batch, evictions = self.machine, self.batch, len(decision.evict)
        sent_back = [*decision.evict, *decision.preempt]
        gets_further = False
        for place, index in enumerate(sent_back):
            running = self._running(index, "evicted" if place < evictions else "preempted")
            rounds = running.rounds_run(batch.round_index)
            if rounds > self._furthest.get(index, 0):
                self._furthest[index], gets_further = rounds, True
            (machine.evict if place < evictions else machine.preempt)(index)
        if gets_further:
            self._note_progress()
        self._starts_seen = self._starts_seen or bool(decision.start)
        for index in decision.start:
            if index not in batch.waiting:
                raise self._error(index, "was started but is not waiting")
            machine.start(batch.waiting.pop(index), decision.reuse.get(index, 0))
        for index in decision.hold:
            if index not in batch.running:
                raise self._error(index, "was held but is not running")
        for index, tokens in decision.prefill.items():
            left = self._running(index, "allotted prompt tokens").prompt_left
            if index in decision.hold:
                raise self._error(index, "was allotted prompt tokens and held")
            if not 0 <= tokens <= left:
                raise self._error(index, f"was allotted {tokens} prompt tokens and has {left} left")
        if not sent_back:
            return False
        views = [self.views[index] for index in sent_back]
        batch.waiting.update(zip(sent_back, views, strict=True))
        self.policy.arrive(views, machine.state)
        return not gets_further and self._is_loop()

    def _running(self, index: int, what: str) -> RunningRequest:
        running = self.batch.running.get(index)
        if running is None:
            raise self._error(index, f"was {what} but is not running")
        return running

    def _error(self, index: int, what: str) -> PolicyError:
        is_index = isinstance(index, int) and 0 <= index < len(self.views)
        known = self.views[index].id if is_index else index
        return self.machine.error(f"request {known!r} {what}")

    def _drains(self, decision: Decision) -> Generator[float, None, bool]:
        """Return whether no more requests will arrive and the policy wants to be asked again."""
        sent_back = decision.evict or decision.preempt
        if sent_back or decision.wake not in (None, math.inf) or self.drain_round is not None:
            return False
        if type(self.policy).drain is Policy.drain:
            return False
        if (yield from self._next_arrival()) < math.inf:
            return False
        if not self.policy.drain(self.machine.state):
            return False
        self.drain_round = self.batch.round_index
        return True

    def _wait(self, decision: Decision) -> Generator[float, None, bool]:
        """Let time pass on an idle machine; return False if no event would ever happen."""
        machine, now = self.machine, self.batch.round_index
        latest = math.inf if decision.wake is None else decision.wake
        sent_back = decision.evict or decision.preempt
        if machine.batch_time is None and latest < math.inf:
            latest = max(latest, now + 1)
        elif sent_back or latest <= now:
            # The batch is empty: ask again at the same epoch. Requests sent back are now in the
            # queue.
            return True
        else:
            latest = math.inf
        until = min(latest, (yield from self._next_arrival(latest)))
        if until == math.inf:
            return False
        machine.idle_until(min(until, self._latest))
        return True

    def _note_progress(self) -> None:
        self._progress_round = self.batch.round_index
        self._starts_seen = False
        self._batches.clear()

    def _is_fruitless(self) -> Generator[float, None, bool]:
        """Return whether the decisions have made no progress for so long that none is expected.

        Progress is an arrival, a completion, or a request that advances further than ever before.
        """
        now, waiting = self.batch.round_index, len(self.batch.waiting)
        if now != self._epoch[0]:
            self._epoch = (now, self.decisions)
        if self.decisions - self._epoch[1] >= IDLE_EPOCHS + waiting:
            return True
        patience = IDLE_EPOCHS + FRUITLESS_LIFETIMES * self._longest_rounds
        if now - self._progress_round <= patience:
            return False
        # A run that waits for a late arrival is not in a loop. The count starts again there.
        return (yield from self._next_arrival()) == math.inf

    def _is_loop(self) -> bool:
        """Return whether the same batch has recurred too often without progress."""
        if self.policy.randomized or self.source.next_arrival() is not None:
            return False
        now = self.batch.round_index
        batch = tuple(
            (index, one.rounds_run(now), one.prompt_left)
            for index, one in self.batch.running.items()
        )
        self._batches[batch] += 1
        return self._batches[batch] > FRUITLESS_RETURNS

    def _observe(self, decision: Decision) -> None:
        if self.source.adaptive:
            groups: list[Sequence[int]] = [decision.start, [*decision.evict, *decision.preempt]]
            groups.append(self._completed_now)
            ids = [tuple(self.views[index].id for index in group) for group in groups]
            self.source.observe(Observation(self.batch.round_index, self.batch.time, *ids))
        self._completed_now = []

    def _complete(self, finished: list[int]) -> None:
        if finished:
            self._note_progress()
            self._completed_now = finished
            self.policy.complete([self.views[index] for index in finished], self.machine.state)
