"""Verdicts of checks, in readable form."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Case = TypeVar("Case")

Reason: TypeAlias = "str | None"
"""The reason of a failure; None if the check passed."""


class NotTriedError(Exception):
    """The check does not apply to the case, or another check reports the fault."""


class CheckError(AssertionError):
    """A check failed; the message is the report."""


@dataclass(frozen=True)
class Verdict:
    """Verdict of one check.

    Attributes
    ----------
    name : str
        Name of the check, such as ``"runs"`` or ``"valid"``.
    asks : str
        The checked property, in a few words.
    checked, failed : int
        Instances on which it was checked, and those on which it failed.
    reason : str or None
        Reason of the failure on the smallest instance found.
    reproduction : str or None
        Python code that shows the failure.
    by_design : bool
        Whether the caller expects a failure.
    """

    name: str
    asks: str
    checked: int
    failed: int = 0
    reason: str | None = None
    reproduction: str | None = None
    by_design: bool = False

    @property
    def passed(self) -> bool:
        """Tell whether the check held or was expected not to; without a case it has not passed."""
        ran_nowhere = self.name == "runs" and self.checked == 0
        return (self.failed == 0 and not ran_nowhere) or self.by_design

    def __str__(self) -> str:
        mark = "ok" if self.failed == 0 else "by design" if self.by_design else "FAILED"
        if self.checked == 0:
            mark = "no case" if self.passed else "FAILED"
        line = f"{mark:<10}{self.name:<15}{self.asks}"
        if not self.passed and self.checked == 0:
            return f"{line}: nothing was tried"
        if not self.failed:
            return f"{line} ({self.checked} instances)"
        parts = [
            f"{line}: not on {self.failed} of {self.checked} instances",
            f"          {self.reason}",
        ]
        if self.reproduction and not self.by_design:
            # No indentation, so that Python accepts the copied lines.
            parts.append(f"\n{self.reproduction}\n")
        return "\n".join(parts)


@dataclass(frozen=True)
class CheckReport:
    """Verdicts of all checks of one bound or policy.

    Attributes
    ----------
    subject : str
        The object tested, such as ``"bound 'mine'"``.
    verdicts : tuple[Verdict, ...]
        Verdicts in the order of the checks.
    notes : tuple[str, ...]
        Remarks that are no faults.
    """

    subject: str
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether every check passed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """Return the checks that did not pass."""
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)

    def __getitem__(self, name: str) -> Verdict:
        return next(verdict for verdict in self.verdicts if verdict.name == name)

    def __str__(self) -> str:
        untried = sum(verdict.passed and verdict.checked == 0 for verdict in self.verdicts)
        held = len(self.verdicts) - len(self.failures) - untried
        head = f"{self.subject}: {held} of {len(self.verdicts)} checks passed"
        head += f", {untried} had no case" if untried else ""
        return "\n".join([head, *map(str, self.verdicts), *(f"note      {n}" for n in self.notes)])

    def raise_for_failures(self) -> None:
        """Raise the report as an error if a check failed.

        Raises
        ------
        CheckError
            A check failed; the message is the report.
        """
        if self.failures:
            raise CheckError(str(self))


def verdict_on(
    cases: Iterable[Case],
    name: str,
    asks: str,
    reason: Callable[[Case], Reason],
    key: Callable[[Case], Hashable],
    smallest: Callable[[Case, Callable[[Case], bool]], Case],
    lines: Callable[[Case], str | None],
) -> Verdict:
    """Run a check on every case, and shrink the first one on which it fails.

    Parameters
    ----------
    cases : Iterable[Case]
        Cases to try.
    name, asks : str
        See `Verdict`.
    reason : Callable[[Case], str or None]
        Returns the fault on a case; raises `NotTriedError` if there is nothing to check.
    key : Callable[[Case], Hashable]
        Returns equal keys for equal cases.
    smallest : Callable[[Case, Callable[[Case], bool]], Case]
        Finds a smaller case that still fails.
    lines : Callable[[Case], str or None]
        Returns Python code that shows the failure.
    """
    checked = 0
    failing: list[Case] = []
    # A function with random behaviour may fail once and not again.
    reasons: dict[Hashable, str] = {}

    def fails(case: Case) -> bool:
        found = None
        with suppress(NotTriedError):
            found = reason(case)
        if found is not None:
            reasons[key(case)] = found
        return found is not None

    for case in cases:
        with suppress(NotTriedError):
            found = reason(case)
            checked += 1
            if found is not None:
                reasons[key(case)] = found
                failing.append(case)
    if not failing:
        return Verdict(name, asks, checked)
    found_case = smallest(failing[0], fails)
    told = reasons[key(found_case)]
    return Verdict(name, asks, checked, len(failing), told, lines(found_case))
