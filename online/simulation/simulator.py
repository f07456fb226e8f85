"""Run a policy on the requests of a problem or of an arrival source."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from instances import Instance, InvalidTypeError, InvalidValueError, Workload
from instances.problem.arrival_source import (
    AnySource,
    Arrival,
    ArrivalSource,
    ProblemSource,
    memory_rule_of,
)
from instances.service_level import AnyLevel, ServiceLevel, limits_of
from instances.validation import as_integer
from online.policy_interface.policy import Policy, VisibleRequest
from online.policy_interface.predictions import ExactPredictions, PredictionModel
from online.policy_interface.specs import AnyPolicy, AnyRouter, make_policy, make_router

from .fleet import simulate_fleet
from .loop import Limits, Reveal, Simulation
from .run import Run


def simulate(  # noqa: PLR0913
    arrivals: AnySource,
    policy: AnyPolicy,
    *,
    router: AnyRouter | None = None,
    seed: int = 0,
    predictions: PredictionModel | None = None,
    prefill_rounds: int = 0,
    max_rounds: int | None = None,
    should_stop: Callable[[], bool] | None = None,
    level: AnyLevel | None = None,
) -> Run:
    """Run an online policy on one machine, or on each replica of a fleet with a router.

    With a router, each replica serves the requests sent to it, and its run is an entry of
    `Run.parts`. This run can be repeated on one machine, with these requests, the ``seed`` of the
    entry, and the predictions that were drawn for the fleet.

    Parameters
    ----------
    arrivals : Instance, Workload or ArrivalSource
        An `Instance` is run in the round model of the papers: every round is one unit of time, and
        idle rounds pass too. A `Workload` is run in seconds: its batch time gives the seconds of
        each round. An arrival source may react to the policy. It is run in seconds if it has a
        ``batch_time``, and on one machine only.
    policy : AnyPolicy
        A registered name, text such as ``"my_rules.py:LeastVolume(alpha=0.2)"``, a class or
        function that makes a policy, or a `Policy` object. On one machine the object itself runs,
        and keeps its state after the run. With several replicas each one gets a copy.
    router : AnyRouter or None, default None
        A registered name, text such as ``"least-requests(delay=0.1)"`` or
        ``"my_router.py:Mine(alpha=0.2)"``, a class or function that makes a router, or a `Router`,
        of which a copy is taken. Needed for more than one replica.
    seed : int, default 0
        Seed of every random choice of the router, the policies, the predictions and the source.
    predictions : PredictionModel or None, default None
        Model of the predictions of output lengths that the policy sees; None gives the true
        lengths.
    prefill_rounds : int, default 0
        Rounds that each request spends on its prompt without emitting a token: 0, or 1 as in [A25].
        With 1, the k-th round of a request holds s + k - 1 tokens.
    max_rounds : int or None, default None
        Largest number of rounds of each replica. When it is reached, the run ends with status
        ``"round-limit"``.
    should_stop : Callable[[], bool] or None, default None
        Function called before every decision, and during decisions that solve programs. If it
        returns True, the run ends with status ``"time-limit"``.
    level : ServiceLevel or Sequence[ServiceLevel] or None, default None
        Service level that policies see: one for all requests, or one for each request of an
        instance or workload in its order. It sets `VisibleRequest.deadline` and has no other
        effect.

    Returns
    -------
    Run
        Its status is ``"completed"`` unless requests were left unserved.

    Raises
    ------
    UnknownNameError
        No policy or router of that name.
    RouterError
        The router failed, or did not choose a replica.
    PolicyError
        The policy broke a rule: it overflowed memory, started a request twice, drew random numbers
        without being `Policy.randomized`, ...
    InvalidTypeError
        An argument is of a wrong type, such as a ``policy`` that is not a policy.
    InvalidValueError
        A request can never run, arrivals are out of order, a workload has no batch time, the
        numbers of levels and of requests differ, or a policy needs a level and there is none.
    RuntimeError
        The policy called `sys.exit`.

    Examples
    --------
    >>> import online
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> run = online.simulate(instance, "mc-sf")
    >>> run.total_latency, run.schedule.start_times.tolist()
    (7, [0, 1, 0])
    """
    problem = arrivals if isinstance(arrivals, Instance | Workload) else None
    source = arrivals if problem is None else ProblemSource(problem)
    if not isinstance(source, ArrivalSource):
        reason = "is not an Instance, Workload or arrival source"
        raise InvalidTypeError(None, "arrivals", arrivals, reason)
    made = None if router is None else make_router(router)
    seed = as_integer(seed, None, "seed", minimum=0)
    limits = _limits(source, prefill_rounds, max_rounds, should_stop)
    reveal = _reveal(source, seed, predictions, _in_order(problem, level))
    replicas = getattr(arrivals, "replicas", 1)
    if replicas > 1:
        if problem is None:
            reason = "is not an Instance or Workload: an arrival source has one replica"
            raise InvalidTypeError(None, "arrivals", arrivals, reason)
        if made is None:
            reason = f"is needed for {replicas} replicas, such as 'least-requests'"
            raise InvalidValueError(None, "router", None, reason)
        return simulate_fleet(problem, policy, made, seed, reveal, limits)
    if not isinstance(policy, Policy):
        policy = make_policy(policy)
    simulation = Simulation(source, policy, seed, reveal, limits)
    simulation.proceed()
    return simulation.finish(problem, None if made is None else made.name)


def _limits(
    source: ArrivalSource,
    prefill_rounds: int,
    max_rounds: int | None,
    should_stop: Callable[[], bool] | None,
) -> Limits:
    """Check ``prefill_rounds`` and ``max_rounds`` of `simulate`. Return the `Limits` of the run."""
    prefill_rounds = as_integer(prefill_rounds, None, "prefill_rounds", minimum=0, maximum=1)
    if prefill_rounds and memory_rule_of(source).unstored:
        reason = "is not 0, but the memory rule stores a token one round later"
        raise InvalidValueError(None, "prefill_rounds", prefill_rounds, reason)
    last = math.inf if max_rounds is None else as_integer(max_rounds, None, "max_rounds", minimum=1)
    return Limits(prefill_rounds, last, should_stop)


def _reveal(
    source: ArrivalSource,
    seed: int,
    predictions: PredictionModel | None,
    levels: Iterator[ServiceLevel | None],
) -> Reveal:
    """Return a function that makes, from an arrival, the request that policies and routers see.

    It hides the true output length and adds a prediction of it and the service level.
    """
    model = ExactPredictions() if predictions is None else predictions
    if isinstance(model, type) or not callable(getattr(model, "predict", None)):
        reason = "is not a prediction model, such as IntervalPredictions(1, 10)"
        raise InvalidTypeError(None, "predictions", predictions, reason)
    rule, rng = memory_rule_of(source), np.random.default_rng([seed, 1])

    def reveal(index: int, arrival: Arrival) -> VisibleRequest:
        time, prompt, output, label, weight = arrival
        told = model.predict(prompt, output, rng)
        peak = rule.held(prompt + told.upper - rule.unstored)
        peak = min(peak, rule.limit(source.memory_limit))
        label = index if label is None else label
        return VisibleRequest(index, label, time, prompt, told, weight, next(levels), peak)

    return reveal


def _in_order(
    problem: Instance | Workload | None, level: AnyLevel | None
) -> Iterator[ServiceLevel | None]:
    """Return an iterator over the service levels of the requests, in order of arrival.

    It yields None for each request if ``level`` is None.
    """
    if level is None or isinstance(level, ServiceLevel):
        return itertools.repeat(level)
    if problem is None:
        reason = "are one for each request, but a source's requests are not known: give one for all"
        raise InvalidValueError(None, "level", "levels", reason)
    limits_of(level, len(problem))
    return iter([level[position] for position in problem.order_of_arrival.tolist()])
