"""User-defined cuts: rows that every optimal schedule satisfies.

A cut is a function of an instance and a last round. It returns rows over the starts x[i, t] of the
time-indexed program (`hindsight.build_model`). Each row is a pair: coefficients by (i, t), and an
upper limit on their sum. The cut claims that *every optimal schedule* satisfies every row, where
x[i, t] is 1 if request i starts at t and 0 otherwise. It follows:

* The integer program with the rows has the optimum without them: no schedule is added, and an
  optimal one is left. Two cuts at once leave it too, as each of them leaves all.
* Its linear relaxation with the rows is at most the optimum. So is, exactly, what prices y >= 0 of
  the rows prove beside memory prices (`hindsight.relaxation.cut_prices`).
* Leaving out starts that no optimal schedule uses changes neither: their x are 0 in all of them.

Nothing here proves the claim, so all of these are *conditional* bounds. A schedule found with the
rows is a schedule of the instance in any case. Rows that exclude all schedules, or all schedules as
good as a known one, are wrong and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from instances import Instance, InvalidTypeError
from instances.registry import Registry
from instances.user_modules import described
from instances.validation import as_exact, as_integer

Start: TypeAlias = tuple[int, int]
"""A start (i, t): request i, by its position in the instance, starts at t."""

Row: TypeAlias = tuple[Mapping[Start, int | Fraction], int | Fraction]
"""Coefficients by start, and the upper limit on their sum over the starts used."""

CutFunction: TypeAlias = Callable[[Instance, int], Iterable[Row]]
Function = TypeVar("Function", bound=Callable[[Instance, int], object])

LARGEST = 10**12
"""Largest coefficient or limit: beyond it floating-point results of HiGHS mean little."""


@dataclass(frozen=True)
class OwnCut:
    """A user-defined cut.

    Attributes
    ----------
    name : str
        Registered name, or name of the function.
    function : Callable[[Instance, int], object]
        The function of an instance and a last round.
    """

    name: str
    function: Callable[[Instance, int], object]

    @property
    def label(self) -> str:
        """Return the name used in results and errors."""
        return f"cut {self.name!r}"

    def rows(self, instance: Instance, horizon: int) -> list[Row]:
        """Return the rows for an instance whose starts complete by ``horizon``.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            The function fails, or its result is not a list of rows.
        """
        rows = described(
            lambda: list(self.function(instance, horizon)),  # type: ignore[call-overload]
            self.name,
            "cut",
        )
        return [self._checked(row, instance, horizon) for row in rows]

    def _checked(self, row: Any, instance: Instance, horizon: int) -> Row:
        if not (isinstance(row, Sequence) and len(row) == 2 and isinstance(row[0], Mapping)):
            raise InvalidTypeError(self.label, "row", row, "is not (coefficients by (i, t), limit)")
        coefficients: dict[Start, Fraction] = {}
        for start, coefficient in row[0].items():
            coefficients[self._start(start, instance, horizon)] = self._exact(coefficient)
        return coefficients, self._exact(row[1])

    def _start(self, start: Any, instance: Instance, horizon: int) -> Start:
        if not (isinstance(start, tuple) and len(start) == 2):
            raise InvalidTypeError(self.label, "start", start, "is not (i, t)")
        index = as_integer(start[0], self.label, "request", minimum=0, maximum=len(instance) - 1)
        request, field = instance[index], f"start of request {index}"
        first, last = request.arrival_time, horizon - request.output_length
        return index, as_integer(start[1], self.label, field, minimum=first, maximum=last)

    def _exact(self, value: Any) -> Fraction:
        return as_exact(value, self.label, "coefficient", largest=LARGEST)


def labels(cuts: Iterable[OwnCut]) -> tuple[str, ...]:
    """Return the names of cuts, as conditions of results."""
    return tuple(cut.label for cut in cuts)


AnyCut: TypeAlias = str | CutFunction | OwnCut
"""Ways to name a cut: a registered name, ``FILE.py:NAME``, or a function."""

CUTS: Registry[OwnCut] = Registry("cut", OwnCut)


def register_cut(name: str) -> Callable[[Function], Function]:
    """Decorator: register ``function(instance, horizon)`` for ``solve(..., cuts=(name,))``.

    The function returns rows ``({(i, t): coefficient, ...}, limit)``: coefficients of the starts
    that a schedule uses sum to at most the limit. Coefficients and limits are ints or
    `fractions.Fraction`; starts complete by ``horizon``, as every optimal schedule does.
    The cut claims that every optimal schedule satisfies every row; `hindsight.check_cut` looks for
    a counterexample. The function gets the instance without its idle gaps.

    A function with the same module and qualified name replaces the earlier one, with a warning.

    Raises
    ------
    ValueError
        Another function has this name.
    """
    return CUTS.register(name)


def cut_names() -> list[str]:
    """Return the names of the registered cuts, sorted."""
    return CUTS.names()
