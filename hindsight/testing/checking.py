"""`check_bound`, `check_cut`, `check_strategy`: tests on random tiny instances, by enumeration."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from hindsight.extensions.bounds import BOUNDS, AnyBound
from hindsight.extensions.cuts import CUTS, AnyCut, OwnCut, Row
from hindsight.outcomes.errors import ScheduleCheckError
from hindsight.outcomes.results import PREEMPTIVE, Goal
from hindsight.outcomes.solve_state import SolveState
from hindsight.runtime.clock import Clock
from hindsight.seconds.solving import require_instance
from instances import Instance, InvalidTypeError, InvalidValueError
from instances.registry import Registry
from instances.sources import MAIN
from instances.user_modules import file_of, users_line
from instances.validation import as_integer

from .cases import drawn_instances, instance_lines, large_instance, smallest
from .enumeration import Starts, fits, fits_with_stops, optimal_schedules, optimum
from .verdicts import CheckReport, NotTriedError, Reason, Verdict, verdict_on

if TYPE_CHECKING:
    from hindsight.strategies.strategy import Problem

GRACE = 10.0
"""Seconds that a strategy may take beyond its time limit."""

SECONDS = 0.3
"""Seconds given to a strategy on an instance that takes longer."""

RELAXED = 20
"""Most instances on which a cut is compared with the linear relaxation."""

REFUSALS = (InvalidValueError, InvalidTypeError)


def check_bound(
    bound: AnyBound,
    instances: int | Iterable[Instance] = 100,
    *,
    seed: int = 0,
) -> CheckReport:
    """Try a bound on tiny instances, and report where it exceeds an optimum found by enumeration.

    * runs: it raises no error and returns an int, a Fraction or prices.
    * valid: no schedule of its goal costs less.
    * repeats: the same instance has the same bound.

    A bound that passes is not proved: its claims remain conditions of the results that use it.

    Parameters
    ----------
    bound : AnyBound
        As `hindsight.solve` takes it: a registered name, ``FILE.py:NAME``, or the function.
    instances : int or Iterable[Instance], default 100
        How many to draw, of 1 to 4 requests: all at once and with arrivals, tight memory, equal
        requests, idle gaps, long ones before short ones. Outputs are 1 to 6, prompts 0 to 46 (a
        third of the instances have longer ones than 9), arrivals 0 to 4, or 30 after a gap. Or
        instances to try instead: every schedule of them is enumerated, so they have no more than
        four or five requests that wait for few rounds, and their memory is counted in tokens.
    seed : int, default 0
        Seed of the instances.

    Returns
    -------
    CheckReport
        A report that prints as a list. Each failure has the smallest instance found.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        An argument is invalid, or the object given is not a bound.
    """
    own = BOUNDS.find(bound)
    cases = _cases(instances, seed)
    verdict = partial(_verdict, cases, _call(check_bound, BOUNDS, bound))
    priced: set[str] = set()

    def value(instance: Instance) -> int:
        from hindsight.rounds import proved_value

        found = own.of(instance)
        if isinstance(found, int):
            return found
        priced.add(instance.digest)
        return proved_value(own, found, instance, own.goal)

    @cache
    def sound(instance: Instance) -> int:
        with _not_tried_where_refused():
            return value(instance)

    @cache
    def best(instance: Instance) -> int:
        return optimum(instance, own.goal)

    def runs(instance: Instance) -> Reason:
        return _refusal(lambda: value(instance))

    def valid(instance: Instance) -> Reason:
        claimed, least = sound(instance), best(instance)
        if claimed <= least:
            return None
        return f"it says {claimed}, and the {own.goal.replace('_', ' ')} is {least} at best"

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
        claim = "a number, which results call a condition"
        notes = [
            f"it reaches the optimum on {sum(tight)} of {len(tight)} instances",
            f"it returns {'prices, which are certified' if priced else claim}",
        ]
    return CheckReport(own.label, verdicts, tuple(notes))


def check_cut(
    cut: AnyCut, instances: int | Iterable[Instance] = 100, *, seed: int = 0
) -> CheckReport:
    """Try a cut on tiny instances, and report where it removes an optimal schedule.

    * runs: it raises no error and returns rows of starts with exact coefficients.
    * valid: every optimal schedule satisfies every row, for a last round that is just late enough
      for all of them and for one that is later.

    A cut that passes is not proved: results that rest on it stay conditional.

    Parameters
    ----------
    cut : AnyCut
        As `hindsight.solve` takes it: a registered name, ``FILE.py:NAME``, or the function.
    instances : int or Iterable[Instance], default 100
        See `check_bound`.
    seed : int, default 0
        Seed of the instances.

    Returns
    -------
    CheckReport
        A report that prints as a list. Each failure has the smallest instance found.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        An argument is invalid, or the object given is not a cut.
    """
    own = CUTS.find(cut)
    cases = _cases(instances, seed)
    verdict = partial(_verdict, cases, _call(check_cut, CUTS, cut))

    @cache
    def best(instance: Instance) -> list[Starts]:
        return optimal_schedules(instance)[1]

    def rows(instance: Instance) -> Iterator[tuple[int, list[Row]]]:
        """Yield a last round just late enough for all optimal schedules, a later one, and rows."""
        outputs = instance.output_lengths.tolist()
        ends = [t + o for starts in best(instance) for t, o in zip(starts, outputs, strict=True)]
        for horizon in (max(ends), int(instance.arrival_times.max()) + sum(outputs)):
            yield horizon, own.rows(instance, horizon)

    def runs(instance: Instance) -> Reason:
        return _refusal(lambda: list(rows(instance)))

    def valid(instance: Instance) -> Reason:
        with _not_tried_where_refused():
            for horizon, found in rows(instance):
                for starts, (number, row) in product(best(instance), enumerate(found)):
                    if (broken := _broken(row, starts)) is not None:
                        where = f"row {number} of horizon {horizon}"
                        return f"{where} removes the optimal starts {list(starts)}: {broken}"
        return None

    verdicts = (
        verdict("runs", "raises no error, returns rows of starts", runs),
        verdict("valid", "removes no optimal schedule", valid),
    )
    notes = (_worth(own, cases),) if all(one.failed == 0 for one in verdicts) else ()
    return CheckReport(own.label, verdicts, notes)


def _broken(row: Row, starts: Starts) -> Reason:
    coefficients, limit = row
    total = sum(coefficients.get(start, 0) for start in enumerate(starts))
    return None if total <= limit else f"{total} > {limit}"


def _worth(own: OwnCut, cases: list[Instance]) -> str:
    from hindsight.relaxation.methods import relax

    tried = cases[-RELAXED:]
    raised = sum(
        relax(case, cuts=own).objective > relax(case, method="lp").objective + 1e-6
        for case in tried
    )
    return f"it raises the linear relaxation on {raised} of {len(tried)} instances"


def check_strategy(
    strategy: Any, instances: int | Iterable[Instance] = 40, *, seed: int = 0, grace: float = GRACE
) -> CheckReport:
    """Try a strategy on tiny instances: intervals hold the optimum, and it stops when told to.

    * runs: it raises no error. Instances that it refuses are left out, but not all of them.
    * schedules: those that it offers are feasible.
    * interval: the bounds that it raises, certified or not, are no more than the optimum.
    * stops: on thirty requests it ends soon after its time limit, and soon after ``should_stop``,
      without an error of any kind.

    Each of its objectives is tested.

    Parameters
    ----------
    strategy : str or Strategy or Callable[[], Strategy]
        A registered name, ``FILE.py:NAME``, an object, or a function that creates one.
    instances : int or Iterable[Instance], default 40
        See `check_bound`.
    seed : int, default 0
        Seed of the instances.
    grace : float, default 10.0
        Seconds that it may take to stop. A strategy that does not stop is abandoned.

    Returns
    -------
    CheckReport
        A report that prints as a list. Each failure has the smallest instance found.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        An argument is invalid, or the object given is not a strategy.
    """
    from hindsight.strategies.strategy import STRATEGIES

    made = STRATEGIES.find(strategy)()
    laboratory = _Laboratory(made, grace)
    # Patience decides the strategy's result; no seed does, since the instance is fixed.
    options = () if grace == GRACE else (f"grace={grace!r}",)
    cases, large = _cases(instances, seed), [large_instance(seed)]
    verdict = partial(_verdict, cases, _call(check_strategy, STRATEGIES, strategy, *options))
    verdicts = (
        verdict("runs", "raises no error", partial(laboratory.reason, "runs", lambda *ended: None)),
        verdict(
            "schedules",
            "offers feasible schedules",
            partial(laboratory.reason, "schedules", _infeasible),
        ),
        verdict(
            "interval",
            "its bounds hold the optimum",
            partial(laboratory.reason, "interval", _exceeding),
        ),
        _verdict(large, None, "stops", "ends when it is told to", laboratory.stops),
    )
    return CheckReport(f"strategy {made.name!r}", verdicts, tuple(laboratory.notes(cases)))


class _Watched:
    """Wrapper of a user-defined strategy that passes its errors on unchanged."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self.name = strategy.name
        self.objectives = tuple(strategy.objectives)
        self.refused: Any = None

    def refusal(self, problem: Problem) -> str | None:
        """See `Strategy`; the answer is stored."""
        self.refused = self._strategy.refusal(problem)
        return cast("str | None", self.refused)

    def run(self, problem: Problem, state: SolveState) -> None:
        """See `Strategy`."""
        self._strategy.run(problem, state)


@dataclass(frozen=True)
class _Refused:
    said: Any


@dataclass
class _Laboratory:
    """A strategy and its solves, each run once."""

    _strategy: Any
    _grace: float
    _ended: dict[tuple[str, Goal], Any] = field(default_factory=dict)
    _hangs: bool = False

    def stops(self, instance: Instance) -> Reason:
        """See `check_strategy`."""
        tried = False
        for goal in self._goals():
            clock = Clock(SECONDS)
            for told, given in (
                ("its time limit", {"time_limit": SECONDS, "should_stop": lambda: False}),
                ("should_stop", {"should_stop": clock.must_stop}),
            ):
                clock.allow(SECONDS)
                ended = self._solve(instance, goal, SECONDS + self._grace, given)
                if self._hangs:
                    return f"it goes on {self._grace:g} seconds after {told}: ask state.is_done()"
                if isinstance(ended, BaseException):
                    return f"with {len(instance)} requests {_said(ended)}"
                tried = tried or not isinstance(ended, _Refused)
        if not tried:
            raise NotTriedError
        return None

    def notes(self, cases: list[Instance]) -> list[str]:
        """Count how often it proves the optimum, and how often it refuses."""
        known = {case.digest for case in cases}
        ended = [one for (digest, _), one in self._ended.items() if digest in known]
        refused = [one.said for one in ended if isinstance(one, _Refused)]
        results = [one for one in ended if not isinstance(one, (_Refused, BaseException))]
        notes = []
        if results:
            proved = sum(one.status == "optimal" for one in results)
            notes.append(f"the interval closed in {proved} of {len(results)} solves")
        if refused:
            notes.append(f"it refuses {len(refused)} of {len(ended)} solves: {refused[0]!r}")
        return notes

    def reason(
        self, check: str, wrong: Callable[[Instance, Goal, Any], Reason], instance: Instance
    ) -> Reason:
        """Return the first failure, by objective; an error counts only for its own check."""
        tried = False
        for goal in self._goals():
            ended = self._solved(instance, goal)
            is_error = isinstance(ended, BaseException)
            concerned = is_error and _concerned(ended) == check
            if isinstance(ended, _Refused) or (is_error and not concerned and check != "runs"):
                continue
            tried = True
            if concerned:
                return _said(ended)
            if not is_error and (found := wrong(instance, goal, ended)) is not None:
                return found
        if not tried:
            raise NotTriedError
        return None

    def _goals(self) -> tuple[Goal, ...]:
        if self._hangs:
            raise NotTriedError
        return cast("tuple[Goal, ...]", tuple(self._strategy.objectives))

    def _solved(self, instance: Instance, goal: Goal) -> Any:
        """Return a result, or the error that ended the solve, which may be a refusal."""
        key = instance.digest, goal
        if key not in self._ended:
            given = {"time_limit": self._grace, "should_stop": lambda: False}
            self._ended[key] = self._solve(instance, goal, 2 * self._grace, given)
        return self._ended[key]

    def _solve(self, instance: Instance, goal: Goal, seconds: float, given: Any) -> Any:
        """Solve in a separate thread, which is abandoned if it does not end."""
        from hindsight.solver import solve

        ended: list[Any] = []
        watched = _Watched(self._strategy)
        settings = {
            "objective": "makespan" if goal == "makespan" else "total_latency",
            "preemptive": goal == PREEMPTIVE,
        }

        def work() -> None:
            try:
                ended.append(cast("Any", solve)(instance, method=watched, **settings, **given))
            except BaseException as error:  # noqa: BLE001 (whatever a strategy raises)
                ended.append(error if watched.refused is None else _Refused(watched.refused))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(seconds)
        self._hangs = self._hangs or thread.is_alive()
        return TimeoutError(f"it does not end in {seconds:g} seconds") if not ended else ended[0]


def _infeasible(instance: Instance, goal: Goal, result: Any) -> Reason:
    schedule = result.schedule
    if goal == PREEMPTIVE:
        is_feasible = fits_with_stops(instance, schedule.stretches)
    else:
        is_feasible = fits(instance, tuple(schedule.start_times.tolist()))
    return None if is_feasible else f"it ends with {schedule!r}, which is not feasible"


def _exceeding(instance: Instance, goal: Goal, result: Any) -> Reason:
    least = optimum(instance, goal)
    for name in ("certified lower bound", "lower bound", "conditional lower bound"):
        bound = getattr(result, name.replace(" ", "_")) or 0
        if bound > least:
            return f"its {name} is {bound}, and the {goal.replace('_', ' ')} is {least} at best"
    return None


CONCERNED = {
    SolveState.offer.__code__: "schedules",
    SolveState.raise_lower.__code__: "interval",
    SolveState.raise_conditional.__code__: "interval",
}
"""Check that each refusal of `SolveState` concerns."""


def _concerned(error: BaseException) -> str:
    """Return the check that an error fails; words in a strategy's own message do not count."""
    if isinstance(error, (ScheduleCheckError, *REFUSALS)):
        for frame, _ in traceback.walk_tb(error.__traceback__):
            check = CONCERNED.get(frame.f_code)
            if check is not None:
                # A feasible schedule that beats a bound shows that the bound does not hold.
                beats = any(words in str(error) for words in ("contradicts", "does not hold"))
                return "interval" if beats else check
    return "runs"


def _said(error: BaseException) -> str:
    """Format an error in one line, with the user's line."""
    return " ".join(f"{type(error).__name__}: {error}".split()) + users_line(error)


def _cases(instances: int | Iterable[Instance], seed: int) -> list[Instance]:
    seed = as_integer(seed, None, "seed", minimum=0)
    if isinstance(instances, Iterable):
        given = [require_instance(one) for one in instances]
        for one in given:
            # Enumeration counts tokens.
            one.require_tokens()
        return sorted(given, key=len)
    number = as_integer(instances, None, "instances", minimum=1)
    return list(drawn_instances(number, seed))


def _call(
    kit: Callable[..., CheckReport], registry: Registry[Any], given: object, *options: str
) -> str:
    """Return the call that shows a failure, with the given text or the reader's name for it.

    A name that an import has registered exists only after that import.
    """
    before = ""
    name = getattr(given, "__name__", "")
    shown = name if name.isidentifier() else "yours"
    if isinstance(given, str):
        source = registry.source(given)
        file = None if source is None else file_of(source)
        shown = repr(given if file is None else f"{file}:{given}")
        if source is not None and file is None and source.__module__ != MAIN:
            before = f"import {source.__module__}\n"
    return f"{before}print(hindsight.{kit.__name__}({', '.join((shown, '[instance]', *options))}))"


def _verdict(
    cases: list[Instance],
    call: str | None,
    name: str,
    asks: str,
    reason: Callable[[Instance], Reason],
) -> Verdict:
    """Run a check; if it fails, add a call that shows it on a smaller instance."""

    def lines(found: Instance) -> str | None:
        imports = "import hindsight\nfrom instances import Instance, Request"
        return None if call is None else f"{imports}\n{instance_lines(found)}\n{call}"

    shrunk = smallest if call is not None else lambda instance, fails: instance
    return verdict_on(cases, name, asks, reason, attrgetter("digest"), shrunk, lines)


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
