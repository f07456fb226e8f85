"""`check_bound`: test a lower bound on tiny instances, against the costs of optimal schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import Instance, InvalidTypeError, InvalidValueError
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH
from instances.problem.memory_rule import TOKENS
from instances.validation import as_integer

from .outcomes.goals import Goal, OnTime, Preemption, Tail
from .outcomes.problem import Problem
from .rounds.own_bounds import AnyBound, OwnBound

SECONDS = 5.0
"""Time limit, in seconds, of each solve that computes an optimal schedule of a tiny instance."""

PROMPT_RANGES = ((1, 4), (0, 4), (1, 41))
"""Ranges of random prompt lengths (tokens), used in turn. The end of a range is excluded."""


@dataclass(frozen=True)
class Verdict:
    """Verdict of one check of a bound or policy: on how many instances a property held.

    Attributes
    ----------
    name : str
        Name of the check, such as ``"valid"``.
    asks : str
        The property that is checked, in a few words.
    checked, failed : int
        Number of instances on which the property was checked, and number of those on which it did
        not hold.
    reason : str or None
        Reason of the failure on the smallest instance on which the property did not hold.
    reproduction : str or None
        Python code that shows the failure on this instance.
    """

    name: str
    asks: str
    checked: int
    failed: int = 0
    reason: str | None = None
    reproduction: str | None = None

    @property
    def passed(self) -> bool:
        """Return whether the property held on all instances."""
        return self.failed == 0

    def __str__(self) -> str:
        mark = "ok" if self.checked else "no case"
        if self.failed:
            mark = "FAILED"
        line = f"{mark:<10}{self.name:<15}{self.asks}"
        if not self.failed:
            return f"{line} ({self.checked} instances)"
        line += f": not on {self.failed} of {self.checked} instances\n          {self.reason}"
        # The Python code that reproduces the failure has no indentation, so that it runs when
        # copied.
        return f"{line}\n\n{self.reproduction}\n" if self.reproduction else line


@dataclass(frozen=True)
class CheckReport:
    """Report on one bound or policy: the results (verdicts) of all its checks.

    Attributes
    ----------
    subject : str
        The object tested, such as ``"bound 'mine'"``.
    verdicts : tuple[Verdict, ...]
        Verdicts in the order of the checks.
    notes : tuple[str, ...]
        Remarks on the bound or policy that are not faults.
    """

    subject: str
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Return whether every check passed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """Return the verdicts of the checks that did not pass."""
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)

    def __getitem__(self, name: str) -> Verdict:
        return next(verdict for verdict in self.verdicts if verdict.name == name)

    def __str__(self) -> str:
        untried = sum(verdict.passed and verdict.checked == 0 for verdict in self.verdicts)
        held = len(self.verdicts) - len(self.failures) - untried
        head = f"{self.subject}: {held} of {len(self.verdicts)} checks passed"
        head += f", {untried} had no case" if untried else ""
        return "\n".join([head, *map(str, self.verdicts), *(f"note      {n}" for n in self.notes)])


def check_bound(
    bound: AnyBound,
    instances: int | Iterable[Instance] = 100,
    *,
    goal: Goal = "latency",
    preemption: Preemption | None = None,
    seed: int = 0,
) -> CheckReport:
    """Test a lower bound on tiny instances, and report where it is false.

    The check ``"valid"`` fails on an instance if the bound raises an error, returns neither an
    exact number nor prices, or exceeds the cost of the schedule that `hindsight.solve` finds within
    `SECONDS` seconds, which is optimal for tiny instances. A bound that passes is not proved:
    `hindsight.solve` still reports its numbers as claims.

    Parameters
    ----------
    bound : AnyBound
        The bound as for `hindsight.solve`: a function, or ``FILE.py:NAME`` of one.
    instances : int or Iterable[Instance], default 100
        Number of random instances to draw, or the instances to test. Random instances have 1 to 4
        requests. Their kinds include common and different arrivals, tight memory, equal requests,
        idle gaps, and long requests before short ones. Output lengths are 1 to 6, prompt lengths 0
        to 46 (above 9 in a third of the instances), arrivals 0 to 4, or 30 after an idle gap.
        Given instances should be so small that they are solved quickly.
    goal, preemption : default "latency", None
        The optimum that the bound must not exceed, as for `hindsight.solve`: ``"latency"`` or
        ``"makespan"``. With preemption ``"keep"`` it is the least total latency of schedules that
        may stop requests between rounds.
    seed : int, default 0
        Seed of the random instances.

    Returns
    -------
    CheckReport
        A report that prints as a list of checks. A failed check shows the smallest instance on
        which it failed.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        An argument is invalid, or ``bound`` is not a bound.
    """
    from .solver import solve

    own = OwnBound.found(bound)
    if isinstance(goal, OnTime | Tail):
        raise InvalidValueError(None, "goal", goal, "is not 'latency' or 'makespan'")
    seed = as_integer(seed, None, "seed", minimum=0)
    if not isinstance(instances, Iterable):
        instances = drawn_instances(as_integer(instances, None, "instances", minimum=1), seed)
    cases = list(instances)
    for one in cases:
        if not isinstance(one, Instance):
            raise InvalidTypeError(None, "instance", one, "is not an Instance")
        one.require_tokens()
    if not cases:
        raise InvalidValueError(None, "instances", instances, "must contain at least one instance")
    failing, tight = [], 0
    for case in sorted(cases, key=lambda one: (len(one), int(one.volumes.sum()))):
        problem = Problem.checked(case, goal, preemption)
        options: Any = {"goal": goal, "preemption": preemption, "progress": False}
        least = solve(case, SECONDS, threads=1, **options).upper_bound
        try:
            claimed, _ = own.of(problem)
        except (InvalidValueError, InvalidTypeError) as error:
            failing.append((case, str(error)))
            continue
        tight += least - 1 < claimed <= least
        if claimed > least:
            words = f"it says {claimed}, and the {problem.goal_name} is {least} at best"
            failing.append((case, words))
    reason = lines = None
    if failing:
        case, reason = failing[0]
        name = getattr(bound, "__name__", repr(bound))
        more = "" if goal == "latency" else f", goal={goal!r}"
        more += "" if preemption is None else f", preemption={preemption!r}"
        lines = (
            "import hindsight\nfrom instances import Instance, Request\n"
            f"{instance_lines(case)}\nprint(hindsight.check_bound({name}, [instance]{more}))"
        )
    n = len(cases)
    verdict = Verdict("valid", "is exact and exceeds no optimum", n, len(failing), reason, lines)
    note = f"it reaches the optimum on {tight} of {n} instances"
    return CheckReport(own.label, (verdict,), (note,))


def drawn_instances(number: int, seed: int) -> Iterator[Instance]:
    """Draw ``number`` random instances, of six kinds in turn (see `check_bound`).

    Instances with fewer requests come first.
    """
    for place in range(number):
        rng, kind = np.random.default_rng([seed, place]), place % 6
        n = 1 + 4 * place // number
        prompts = rng.integers(*PROMPT_RANGES[place % len(PROMPT_RANGES)], n)
        outputs = rng.integers(1, 7, n)
        # Random arrivals, also unsorted: bounds must not assume an order.
        arrivals = rng.integers(0, 5, n) * (kind in (1, 3))
        if kind == 2:  # requests of equal lengths
            prompts[:], outputs[:] = prompts[0], outputs[0]
        arrivals[-1] += 30 * (kind == 4)  # an idle gap before the last request
        if kind == 5:  # the first request leaves no memory for the later, short requests, which the
            # best schedules run before it
            prompts, outputs[1:], arrivals[1:] = prompts + 6, 1, 1
        least = int((prompts + outputs).max())
        spare = 0 if kind in (3, 5) else int(rng.integers(0, least + 1))
        metadata = {} if prompts.all() else {ALLOW_ZERO_PROMPT_LENGTH: True}
        columns = (prompts, outputs, arrivals)
        yield Instance.from_arrays(*columns, memory_limit=least + spare, metadata=metadata)


def instance_lines(instance: Instance) -> str:
    """Return Python code that creates the instance as a variable named ``instance``."""
    names = ("arrival_time", "prompt_length", "output_length", "id", "weight")
    rows = [tuple(getattr(one, name) for name in names) for one in instance.requests]
    more = "" if instance.memory_rule == TOKENS else f", memory_rule={instance.memory_rule!r}"
    if not instance.prompt_lengths.all():
        more += f", metadata={{{ALLOW_ZERO_PROMPT_LENGTH!r}: True}}"
    call = f"Instance([Request(*row) for row in rows], memory_limit={instance.memory_limit}{more})"
    return f"rows = {rows}  # arrival, prompt, output, id, weight\ninstance = {call}"
