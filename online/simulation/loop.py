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
"""A run ends as stuck after this many decisions in a round, plus the number of waiting requests."""

FRUITLESS_LIFETIMES = 200
"""A run ends after `IDLE_EPOCHS` + this many times (longest s + o) rounds without any progress."""

FRUITLESS_RETURNS = 100
"""A run is a livelock if the same batch occurs more often than this, without progress between."""

Reveal = Callable[[int, Arrival], VisibleRequest]
"""Type of functions that return what policies see of a request, given its index and `Arrival`."""


class Limits(NamedTuple):
    """Limits after which a run ends even if requests are left, and its prefill rounds per request.

    Attributes
    ----------
    prefill_rounds : int
        Rounds of each request that process its prompt and emit no token.
    max_rounds : float
        Number of rounds after which the run ends.
    should_stop : Callable or None
        Function called before each decision. The run ends if it returns True.
    """

    prefill_rounds: int
    max_rounds: float
    should_stop: Callable[[], bool] | None


class Simulation:
    """A run of a policy on one machine, which can be continued when more arrivals become known.

    Attributes
    ----------
    status : RunStatus
        How the run ended. Not set before the end.
    resume_at : float
        Clock time up to which all arrivals must be known before the run can continue. If a request
        is added that arrives before this time, the run can continue at once. Infinite when the run
        has ended.
    views : list[VisibleRequest]
        The requests that have arrived, as policies see them.
    decisions : int
        Number of calls of the policy's `decide`.
    drain_round : int or None
        Rounds run when the policy stopped waiting for more requests (`Policy.drain`), if it did.
    """

    status: RunStatus

    def __init__(
        self, source: ArrivalSource, policy: Policy, seed: int, reveal: Reveal, limits: Limits
    ) -> None:
        # Arrivals, predictions and policies draw from separate random streams. So the number of
        # draws by a policy does not change predictions or arrivals.
        source.reset(np.random.default_rng([seed, 0]))
        self.source, self.policy, self.seed, self._reveal = source, policy, seed, reveal
        self._limits, prefill_rounds = limits, limits.prefill_rounds
        rule, batch_time, limit = memory_rule_of(source), batch_time_of(source), source.memory_limit
        self.machine = Machine(limit, batch_time, rule, prefill_rounds, policy.name)
        self.batch = self.machine.batch
        rng = random_stream(policy, "policy", [seed, 2])
        self.setup = Setup(limit, rng, rule, batch_time, prefill_rounds=prefill_rounds)
        # _latest is the clock time at which an idle machine stops waiting for an arrival:
        # `max_rounds` in the round model, infinity in continuous time.
        self._latest = limits.max_rounds if batch_time is None else math.inf
        self.views: list[VisibleRequest] = []
        self.decisions = 0
        self.drain_round: int | None = None
        self._completed_now: list[int] = []
        # _batches counts, after requests were sent back, how often the same batch has occurred with
        # the same progress of all its requests. _furthest has, for each request that was sent back,
        # the most rounds of progress that it has made in any attempt.
        self._batches: Counter[Any] = Counter()
        self._furthest: dict[int, int] = {}
        self._longest_rounds, self._progress_round, self._starts_seen = 1, 0, False
        # _epoch has the round of the last decision, and the number of decisions in all earlier
        # rounds.
        self._epoch = (-1, 0)
        self._steps = self._loop()

    def proceed(self) -> None:
        """Run up to `Machine.horizon`, the time up to which all arrivals are known, or to the end.

        Set ``resume_at``, or ``status`` at the end.
        """
        try:
            self.resume_at = next(self._steps)
            return
        except StopIteration as ended:
            self.status = ended.value or self.status
        except DecisionStoppedError:
            self.status = "time-limit"
        except SystemExit as error:
            # The policy has called sys.exit. This would end the whole program, perhaps with exit
            # code 0.
            raise RuntimeError(f"policy {self.policy.name!r} asked to exit: {error!r}") from error
        self.resume_at = math.inf

    def finish(self, problem: Instance | Workload | None, router_name: str | None = None) -> Run:
        """Return the `Run`, with requests in the order of ``problem`` (None: order of arrival)."""
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
        """Run from decision to decision (epochs), and return the status at the end.

        If the run cannot continue before more arrivals are known, the generator yields a clock
        time. All arrivals up to that time must be known before it is resumed. Infinity means that
        it needs to know the next arrival, at whatever time.
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
                    # All requests are finished. An adaptive arrival source may release new requests
                    # in reaction to the last completions, so it is informed of them now.
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
            # ``paused``: the decision holds all running requests, so none emits a token. In the
            # round model rounds still pass. In continuous time no round runs.
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
        """Return the clock time of the next arrival, infinity if no request will arrive.

        If the source has no next arrival now, yield ``latest`` until all arrivals up to that clock
        time are known.
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
            # Most rounds that a request may need: a prompt cut into chunks of one token takes one
            # round for each token.
            longest = arrival.prompt_length + arrival.output_length + self.setup.prefill_rounds
            self._longest_rounds = max(self._longest_rounds, longest)
        self.policy.arrive(self.views[known:], self.machine.state)

    def _check(self, view: VisibleRequest, arrival: Arrival) -> None:
        """Raise `InvalidValueError` if a released request is not valid.

        Its arrival time must not be before that of an earlier request or after the present time. In
        the round model it must be a whole number. The request alone must fit into memory.
        """
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
        """Check a decision and carry out its evictions, preemptions and starts.

        Return whether the run repeats itself. It does if requests were sent back that had not
        advanced further than in earlier attempts, and if the same batch has occurred too often
        (`FRUITLESS_RETURNS`).
        """
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
        """Call `Policy.drain` if the policy waits although no more requests will arrive.

        Return its result: whether the policy wants to decide again at once. After its first True,
        `Policy.drain` is not called again.
        """
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
        """Move the clock of an idle machine to the next event: an arrival or the policy's wake-up.

        Return False if there will be no such event. The run is then stalled.
        """
        machine, now = self.machine, self.batch.round_index
        latest = math.inf if decision.wake is None else decision.wake
        sent_back = decision.evict or decision.preempt
        if machine.batch_time is None and latest < math.inf:
            latest = max(latest, now + 1)
        elif sent_back or latest <= now:
            # No round runs, and the policy decides again at the same time: requests that it has
            # sent back are now in the queue, or its ``wake`` asks for it.
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
        """Return whether the run has made no progress for so long that it should end.

        Progress is an arrival or a completion. It is also progress if a request is sent back to the
        queue that had advanced further than in any attempt before. The limits are `IDLE_EPOCHS` and
        `FRUITLESS_LIFETIMES`.
        """
        now, waiting = self.batch.round_index, len(self.batch.waiting)
        if now != self._epoch[0]:
            self._epoch = (now, self.decisions)
        if self.decisions - self._epoch[1] >= IDLE_EPOCHS + waiting:
            return True
        patience = IDLE_EPOCHS + FRUITLESS_LIFETIMES * self._longest_rounds
        if now - self._progress_round <= patience:
            return False
        # If another request will arrive, the run is not stuck: the arrival counts as progress.
        return (yield from self._next_arrival()) == math.inf

    def _is_loop(self) -> bool:
        """Return whether this batch has recurred more than `FRUITLESS_RETURNS` times.

        Batches are the same if they have the same requests with the same progress. The result is
        False for policies with random draws and while requests are to come, because such a run may
        still leave the loop.
        """
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
