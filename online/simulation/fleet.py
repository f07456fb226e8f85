"""The simulator of fleets: several machines and a router on one clock.

Each machine is advanced by itself, and no further than the router may see it: up to ``delay``
before the arrival that is to be routed. Between two decisions of its policy nothing there changes
but what grows by a known number a round, so the router sees the rounds under way as far as they
have ended. A request sent there ends them early, as one that was known before would have.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from instances import Instance, Workload
from instances.arrays import IntArray
from instances.problem.arrival_source import Arrival, FixedArrivals, ProblemSource
from instances.problem.fleet_schedule import by_replica
from instances.service_level import ServiceLevel
from instances.validation import as_integer
from online.policy_interface.policy import Policy, Setup, VisibleRequest, check_draws
from online.policy_interface.predictions import Prediction, PredictionModel
from online.policy_interface.router import ReplicaView, Router, RouterError
from online.policy_interface.specs import AnyPolicy, make_policy

from .loop import Simulation, visible
from .run import Run


class Fleet(NamedTuple):
    """Replicas that share a problem and the options of a run."""

    problem: Instance | Workload
    policy: AnyPolicy
    seed: int
    prefill_rounds: int
    max_rounds: int | None
    should_stop: Callable[[], bool] | None

    def run(
        self,
        router: Router,
        predictions: PredictionModel,
        levels: Iterator[ServiceLevel | None],
    ) -> Run:
        """Route every request, and run each replica to its end."""
        problem, seed = self.problem, self.seed
        source, order = ProblemSource(problem), problem.order_of_arrival
        rng = np.random.default_rng([seed, 1])
        source.reset(rng)
        arrivals = source.release(math.inf)
        # The streams before it are those of a source, the predictions and a policy.
        setup = Setup(
            problem.memory_limit,
            np.random.default_rng([seed, 3]),
            problem.memory_rule,
            problem.batch_time,
            problem.replicas,
            self.prefill_rounds,
        )
        sent = [
            visible(
                index,
                one,
                predictions.predict(one.prompt_length, one.output_length, rng),
                next(levels),
                setup,
            )
            for index, one in enumerate(arrivals)
        ]
        fleet = [self.replica(index) for index in range(problem.replicas)]
        keys = router.keys(problem)
        try:
            router.reset(setup)
        except (Exception, SystemExit) as error:
            raise _failed(router, error) from error
        assignment = np.zeros(len(arrivals), dtype=np.int64)
        assignment[order] = _route(router, fleet, sent, arrivals, [keys[k] for k in order.tolist()])
        check_draws(router, setup.rng, [seed, 3], RouterError, "router")
        own = by_replica(assignment, problem.replicas)
        parts = [self.finish(one, own[one.index]) for one in fleet]
        return Run.of_fleet(problem, router.name, seed, assignment, parts)

    def replica(self, index: int) -> _Replica:
        """Return a new machine with a policy of its own, to be sent requests."""
        seed = self.seed
        if index:
            seed = int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
        policy = make_policy(self.policy)
        replica = _Replica(index, self.problem, policy, seed, self.prefill_rounds)
        replica.begin(self.max_rounds, self.should_stop)
        return replica

    def finish(self, replica: _Replica, own: IntArray) -> Run | None:
        """Run a replica to its end; its record is that of the requests at these positions."""
        if not len(own) and len(self.problem):
            return None
        replica.end()
        if replica.status == "livelock":
            # It was not caught as long as more might come, and would have been where that is known.
            caught = self.replica(replica.index)
            for request, arrival in replica.requests:
                caught.send(request, arrival)
            caught.end()
            replica = caught
        return replica.finish(self.problem.alone(own))


def _route(
    router: Router,
    fleet: list[_Replica],
    sent: list[VisibleRequest],
    arrivals: Sequence[Arrival],
    keys: list[Hashable],
) -> list[int]:
    """Send every request to a replica, in order of arrival; return which."""
    views = tuple(ReplicaView(one) for one in fleet)
    clock = [0.0]
    for one in fleet:
        one.clock = clock
    homes: dict[Hashable, int] = {}
    assignment = []
    for request, arrival, key in zip(sent, arrivals, keys, strict=True):
        if router.looks:
            now = max(0.0, arrival.time - router.delay)
            clock[0] = now
            for one in fleet:
                if one.resume_at <= now:
                    one.advance(now)
        chosen = None if key is None else homes.get(key)
        if chosen is None:
            try:
                chosen = router.route(request, views)
            except (Exception, SystemExit) as error:
                raise _failed(router, error, request) from error
            if type(chosen) is not int or not 0 <= chosen < len(fleet):
                owner = f"router {router.name!r}, request {request.id!r}"
                chosen = as_integer(chosen, owner, "replica", minimum=0, maximum=len(fleet) - 1)
            if key is not None:
                homes[key] = chosen
        fleet[chosen].send(request, arrival)
        assignment.append(chosen)
    return assignment


def _failed(
    router: Router, error: BaseException, request: VisibleRequest | None = None
) -> RouterError:
    where = "" if request is None else f", request {request.id!r}"
    return RouterError(f"router {router.name!r}{where}: {type(error).__name__}: {error}")


class _Sent(FixedArrivals):
    """Requests that were sent to a replica so far."""

    def __init__(self, problem: Instance | Workload) -> None:
        self.name = problem.name
        self.memory_limit, self.memory_rule = problem.memory_limit, problem.memory_rule
        self.batch_time = problem.batch_time
        self._arrivals = []

    def append(self, arrival: Arrival) -> None:
        """Take one that is not earlier than those before."""
        self._arrivals.append(arrival)

    @property
    def pending(self) -> int:
        """Return the number of requests sent and not released."""
        return len(self._arrivals) - self._position


class _Told:
    """Predictions that were drawn before."""

    def __init__(self, requests: list[tuple[VisibleRequest, Arrival]]) -> None:
        self._requests = iter(requests)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the next one."""
        return next(self._requests)[0].prediction


class _Replica(Simulation):
    """A machine of a fleet, and what a router knows of it.

    Attributes
    ----------
    clock : list[float]
        Time of what is known of all machines, its only entry.
    requests : list[tuple[VisibleRequest, Arrival]]
        All that were sent here.
    unfinished : dict[int, VisibleRequest]
        Those that are not finished, by position in that list.
    waiting, running, work, prompts : int
        See `ReplicaView`; prompt tokens of what is not finished.
    """

    source: _Sent
    clock: list[float]

    def __init__(
        self,
        index: int,
        problem: Instance | Workload,
        policy: Policy,
        seed: int,
        prefill_rounds: int,
    ) -> None:
        self.requests: list[tuple[VisibleRequest, Arrival]] = []
        # Iterators over a list go on where it has grown.
        levels = (request.level for request, _ in self.requests)
        source, told = _Sent(problem), _Told(self.requests)
        super().__init__(source, policy, seed, told, levels, prefill_rounds)
        self.machine.horizon = 0.0
        self.index = index
        self.unfinished: dict[int, VisibleRequest] = {}
        self._volumes: list[int] | None = None
        self.waiting = self.running = self.work = self.prompts = 0
        self._prompts_running: int | None = None

    def send(self, request: VisibleRequest, arrival: Arrival) -> None:
        """Take a request that arrives."""
        self.unfinished[len(self.requests)] = request
        self.requests.append((request, arrival))
        self.source.append(arrival)
        if self._volumes is not None:
            insort(self._volumes, request.volume)
        self.waiting += 1
        self.work += request.prompt_length + request.prediction.point
        self.prompts += request.prompt_length
        self.resume_at = min(self.resume_at, self.machine.hear(arrival.time))

    @property
    def volumes(self) -> list[int]:
        """Return the volumes of what is not finished, sorted; kept from the first time on."""
        if self._volumes is None:
            self._volumes = sorted(request.volume for request in self.unfinished.values())
        return self._volumes

    def advance(self, now: float) -> None:
        """Run up to what is known now."""
        self.machine.horizon = now
        self.proceed()
        # What is on its way is known to have been sent.
        self.waiting = len(self.machine.waiting) + self.source.pending
        self.running = len(self.machine.running)
        self._prompts_running = None

    def end(self) -> None:
        """Run to the end: nothing more is sent."""
        self.advance(math.inf)

    def stored_tokens(self) -> int:
        """Return the KV tokens stored now."""
        return self.machine.stored_at(self.clock[0])

    def waiting_tokens(self) -> int:
        """Return the prompt tokens of what waits, and the output tokens that it kept."""
        if self._prompts_running is None:
            running = self.machine.running.values()
            kept = sum(self.machine.tokens_kept.values())
            self._prompts_running = sum(one.request.prompt_length for one in running) - kept
        return self.prompts - self._prompts_running

    def _complete(self, finished: list[int]) -> None:
        super()._complete(finished)
        for index in finished:
            request = self.unfinished.pop(index)
            self.work -= request.prompt_length + request.prediction.point
            self.prompts -= request.prompt_length
            if self._volumes is not None:
                del self._volumes[bisect_left(self._volumes, request.volume)]
