"""`check_bound`: tests of a lower bound on random tiny instances, by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from operator import attrgetter
from typing import get_args

from hindsight.extensions.bounds import AnyBound, OwnBound
from hindsight.outcomes.goals import GOAL_NAMES, Optimum
from instances import Instance, InvalidTypeError, InvalidValueError
from instances.validation import as_integer

from .cases import drawn_instances, instance_lines, smallest
from .enumeration import optimum
from .verdicts import CheckReport, NotTriedError, Reason, Verdict, verdict_on

REFUSALS = (InvalidValueError, InvalidTypeError)


def check_bound(
    bound: AnyBound,
    instances: int | Iterable[Instance] = 100,
    *,
    goal: Optimum = "latency",
    seed: int = 0,
) -> CheckReport:
    """Try a bound on tiny instances, and report where it exceeds an optimum found by enumeration.

    * runs: it raises no error and returns an int, a Fraction or prices.
    * valid: no schedule costs less by the goal.
    * repeats: the same instance has the same bound.

    A bound that passes is not proved: its claims stay claims in the results that use it.

    Parameters
    ----------
    bound : AnyBound
        As `hindsight.solve` takes it: the function, or ``FILE.py:NAME`` of one.
    instances : int or Iterable[Instance], default 100
        How many to draw, of 1 to 4 requests: all at once and with arrivals, tight memory, equal
        requests, idle gaps, long ones before short ones. Outputs are 1 to 6, prompts 0 to 46 (a
        third of the instances have longer ones than 9), arrivals 0 to 4, or 30 after a gap. Or
        instances to try instead: every schedule of them is enumerated, so they have no more than
        four or five requests that wait for few rounds, and their memory is counted in tokens.
    goal : Optimum, default "latency"
        Goal that it bounds: ``"latency"``, ``"makespan"``, or ``"preemptive"``,
        of schedules that may stop requests.
    seed : int, default 0
        Seed of the instances.

    Returns
    -------
    CheckReport
        A report that prints as a list. Each failure has the smallest instance found.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        An argument is invalid, or the object given is not a bound.
    """
    own = OwnBound.found(bound)
    if goal not in get_args(Optimum):
        known = ", ".join(get_args(Optimum))
        raise InvalidValueError(None, "goal", goal, f"is not one of {known}")
    cases = _cases(instances, seed)
    verdict = partial(_verdict, cases, _call(bound, goal))
    priced: set[str] = set()

    def value(instance: Instance) -> int:
        from hindsight.rounds import proved_value

        found = own.of(instance)
        if isinstance(found, int):
            return found
        priced.add(instance.digest)
        return proved_value(own, found, instance, goal)

    @cache
    def sound(instance: Instance) -> int:
        with _not_tried_where_refused():
            return value(instance)

    @cache
    def best(instance: Instance) -> int:
        return optimum(instance, goal)

    def runs(instance: Instance) -> Reason:
        return _refusal(lambda: value(instance))

    def valid(instance: Instance) -> Reason:
        claimed, least = sound(instance), best(instance)
        if claimed <= least:
            return None
        return f"it says {claimed}, and the {GOAL_NAMES[goal]} is {least} at best"

    def repeats(instance: Instance) -> Reason:
        first, second = sound(instance), value(instance)
        return None if first == second else f"it says {first}, and then {second}"

    verdicts = (
        verdict("runs", "raises no error, returns an exact number or prices", runs),
        verdict("valid", "exceeds no optimum", valid),
        verdict("repeats", "equal instances, equal bounds", repeats),
    )
    tight = []
    for case in cases:
        with suppress(NotTriedError):
            tight.append(sound(case) == best(case))
    notes = []
    if tight:
        claim = "a number, which results call claimed"
        notes = [
            f"it reaches the optimum on {sum(tight)} of {len(tight)} instances",
            f"it returns {'prices, which are certified' if priced else claim}",
        ]
    return CheckReport(own.label, verdicts, tuple(notes))


def _cases(instances: int | Iterable[Instance], seed: int) -> list[Instance]:
    seed = as_integer(seed, None, "seed", minimum=0)
    if isinstance(instances, Iterable):
        given = list(instances)
        for one in given:
            if not isinstance(one, Instance):
                raise InvalidTypeError(None, "instance", one, "is not an Instance")
            # Enumeration counts tokens.
            one.require_tokens()
        return sorted(given, key=len)
    number = as_integer(instances, None, "instances", minimum=1)
    return list(drawn_instances(number, seed))


def _call(given: object, goal: Optimum) -> str:
    """Return the call that shows a failure, with the given text or the name of the function."""
    name = getattr(given, "__name__", "")
    shown = repr(given) if isinstance(given, str) else name if name.isidentifier() else "yours"
    more = "" if goal == "latency" else f", goal={goal!r}"
    return f"print(hindsight.check_bound({shown}, [instance]{more}))"


def _verdict(
    cases: list[Instance],
    call: str,
    name: str,
    asks: str,
    reason: Callable[[Instance], Reason],
) -> Verdict:
    """Run a check; if it fails, add a call that shows it on a smaller instance."""

    def lines(found: Instance) -> str:
        imports = "import hindsight\nfrom instances import Instance, Request"
        return f"{imports}\n{instance_lines(found)}\n{call}"

    return verdict_on(cases, name, asks, reason, attrgetter("digest"), smallest, lines)


def _refusal(action: Callable[[], object]) -> Reason:
    """Return the refusal of what the user's function returned, or its error."""
    try:
        action()
    except REFUSALS as error:
        return str(error)
    return None


@contextmanager
def _not_tried_where_refused() -> Iterator[None]:
    """Leave a refusal to the check that is about refusals."""
    try:
        yield
    except REFUSALS:
        raise NotTriedError from None
