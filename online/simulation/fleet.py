"""The simulator of fleets: several machines and a router on one clock.

Before a request is routed, each machine (replica) is run only as far as the router may see it: up
to ``delay`` before the arrival of the request. Between two decisions of its policy, the state of a
replica changes only by known numbers per round. So the router sees the planned rounds of a replica
as far as they have ended by that time. A request that is sent to the replica ends its planned
rounds early. This has the same effect as if the request had been known when they were planned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from instances import Instance, Workload
from instances.problem.arrival_source import Arrival, FixedArrivals, ProblemSource, batch_time_of
from instances.problem.fleet_schedule import by_replica
from instances.validation import as_integer
from online.policy_interface.policy import VisibleRequest, random_stream
from online.policy_interface.router import ReplicaView, Router, RouterError
from online.policy_interface.specs import AnyPolicy, make_policy

from .loop import Limits, Reveal, Simulation
from .run import Run


def simulate_fleet(
    problem: Instance | Workload,
    policy: AnyPolicy,
    router: Router,
    seed: int,
    reveal: Reveal,
    limits: Limits,
) -> Run:
    """Simulate a router and the replicas of ``problem``, each with its own copy of the policy.

    The router sends each request to a replica. Each replica runs until its requests are served or
    a limit is reached.
    """
    fleet = [_Replica(index, problem, policy, seed, limits) for index in range(problem.replicas)]
    # The router draws from random stream 3. Streams 0, 1 and 2 belong to the arrival source, the
    # predictions and the policy.
    rng = random_stream(router, "router", [seed, 3])
    setup = replace(fleet[0].setup, rng=rng, replicas=problem.replicas)
    order = problem.order_of_arrival.tolist()
    _call(router, "", router.reset, setup)
    views = tuple(map(ReplicaView, fleet))
    assignment = np.zeros(len(problem), dtype=np.int64)
    for index, arrival in enumerate(ProblemSource(problem).release(math.inf)):
        request = reveal(index, arrival)
        if router.looks:
            for one in fleet:
                one.advance(max(0.0, arrival.time - router.delay))
        who = f", request {request.id!r}"
        answer = _call(router, who, router.route, request, views)
        owner = f"router {router.name!r}{who}"
        chosen = as_integer(answer, owner, "replica", minimum=0, maximum=len(fleet) - 1)
        fleet[chosen].send(request, arrival)
        assignment[order[index]] = chosen
    parts = [
        one.run(problem.alone(own)) if len(own) else None
        for one, own in zip(fleet, by_replica(assignment, len(fleet)), strict=True)
    ]
    return Run.of_fleet(problem, router.name, seed, assignment, parts)


def _call(router: Router, who: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a router, and turn any exception into a `RouterError`.

    ``who`` names the request in the message.
    """
    try:
        return method(*arguments)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise RouterError(f"router {router.name!r}{who}: {what}") from error


class _Sent(FixedArrivals):
    """Arrival source of one replica: it has the requests that the router has sent there so far."""

    def __init__(self, problem: Instance | Workload) -> None:
        self.name, self.memory_limit = problem.name, problem.memory_limit
        self.memory_rule, self.batch_time = problem.memory_rule, batch_time_of(problem)
        self.arrivals = self._arrivals = []


class _Replica(Simulation):
    """A machine of a fleet with the properties that a `ReplicaView` shows to the router.

    Attributes
    ----------
    requests : list[VisibleRequest]
        All requests sent to this replica.
    work : int
        Sum of prompt and predicted output tokens over its unfinished requests.
    prompts : int
        Sum of prompt tokens over its unfinished requests.
    """

    source: _Sent

    def __init__(
        self, index: int, problem: Instance | Workload, policy: AnyPolicy, seed: int, limits: Limits
    ) -> None:
        if index:
            seed = int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
        self.requests: list[VisibleRequest] = []
        # Unfinished requests by their position in `requests`.
        self._unfinished: dict[int, VisibleRequest] = {}
        self.index, self.work, self.prompts = index, 0, 0
        self._prompts_running: int | None = None

        def reveal(index: int, arrival: Arrival) -> VisibleRequest:
            return replace(self.requests[index], index=index)

        super().__init__(_Sent(problem), make_policy(policy), seed, reveal, limits)
        self.machine.horizon = 0.0
        self.proceed()

    def send(self, request: VisibleRequest, arrival: Arrival) -> None:
        """Add a request that the router sends to this replica."""
        self._unfinished[len(self.requests)] = request
        self.requests.append(request)
        self.source.arrivals.append(arrival)
        self.work += request.prompt_length + request.prediction.point
        self.prompts += request.prompt_length
        self.resume_at = min(self.resume_at, arrival.time)

    def advance(self, now: float) -> None:
        """Run the rounds that end by the clock time ``now``.

        The router has sent all requests that arrive before ``now``.
        """
        self.machine.horizon = now
        if self.resume_at <= now:
            self.proceed()
            self._prompts_running = None

    def run(self, problem: Instance | Workload) -> Run:
        """Run to the end, with no further requests from the router, and return the `Run`.

        ``problem`` has the requests that were sent to this replica.
        """
        self.advance(math.inf)
        return self.finish(problem)

    # --- properties of `ReplicaView` ---------------------------------------------------------

    @property
    def sent(self) -> int:
        """Return the number of requests sent to this replica so far."""
        return len(self.requests)

    @property
    def unfinished(self) -> Collection[VisibleRequest]:
        """Return the requests sent to this replica that have not completed."""
        return self._unfinished.values()

    @property
    def waiting(self) -> int:
        """Return the number of requests sent to this replica that do not run and are not finished.

        They are in the queue, or they arrive after the time up to which the replica has run.
        """
        return len(self.batch.waiting) + len(self.requests) - len(self.views)

    @property
    def running(self) -> int:
        """Return the number of requests in the batch of this replica."""
        return len(self.batch.running)

    @property
    def tokens(self) -> int:
        """Return the KV tokens stored at the time up to which the replica has run."""
        return self.machine.stored_at(self.machine.horizon)

    @property
    def waiting_tokens(self) -> int:
        """Return the tokens that waiting requests have to process before they emit a token.

        These are their prompt tokens, and the output tokens that preempted requests have kept.
        """
        if self._prompts_running is None:
            running = self.batch.running.values()
            kept = sum(self.machine.tokens_kept.values())
            self._prompts_running = sum(one.request.prompt_length for one in running) - kept
        return self.prompts - self._prompts_running

    def _complete(self, finished: list[int]) -> None:
        super()._complete(finished)
        for index in finished:
            request = self._unfinished.pop(index)
            self.work -= request.prompt_length + request.prediction.point
            self.prompts -= request.prompt_length
