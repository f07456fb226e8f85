"""Cuts of one's own: rows that every optimal schedule satisfies.

A cut is a function of an instance and a last round. It returns rows over the starts x[i, t] of the
time-indexed program (`hindsight.build_model`), each a pair of coefficients by (i, t) and the most
that their sum may be. It claims that *every optimal schedule* satisfies every row, where x[i, t] is
1 if request i starts at t and 0 otherwise. Then, by hand:

* The integer program with the rows has the optimum without them: no schedule is added, and an
  optimal one is left. Two cuts at once leave it too, as each of them leaves all.
* Its linear relaxation with the rows is at most the optimum. So is, exactly, what prices y >= 0 of
  the rows prove beside memory prices (`hindsight.relaxation.cut_prices`).
* Leaving out starts that no optimal schedule uses changes neither: their x are 0 in all of them.

Nothing here proves the claim, so all of these are *conditional* bounds. A schedule found with the
rows is a schedule of the instance, whatever they are. Rows that leave nothing, or nothing as good
as a schedule known, show themselves to be wrong and are refused.
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
"""(i, t): request i, by its place in the instance, starts at t."""

Row: TypeAlias = tuple[Mapping[Start, int | Fraction], int | Fraction]
"""Coefficients, and the most that their sum over the starts that are taken may be."""

CutFunction: TypeAlias = Callable[[Instance, int], Iterable[Row]]
Function = TypeVar("Function", bound=Callable[[Instance, int], object])

LARGEST = 10**12
"""Of coefficients and limits: beyond it what HiGHS computes with them would mean little."""


@dataclass(frozen=True)
class OwnCut:
    """A cut of the user's.

    Attributes
    ----------
    name : str
        As registered, or that of the function.
    function : Callable[[Instance, int], object]
        What is called.
    """

    name: str
    function: Callable[[Instance, int], object]

    @property
    def label(self) -> str:
        """The name in results and errors."""
        return f"cut {self.name!r}"

    def rows(self, instance: Instance, horizon: int) -> list[Row]:
        """Its rows of an instance whose starts complete by ``horizon``.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            It fails, or what it returns are no rows.
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
"""What stands for a cut: a registered name, ``FILE.py:NAME``, a function."""

CUTS: Registry[OwnCut] = Registry("cut", OwnCut)


def register_cut(name: str) -> Callable[[Function], Function]:
    """Decorator: make ``function(instance, horizon)`` known as ``solve(..., cuts=(name,))``.

    It returns rows ``({(i, t): coefficient, ...}, limit)``: the coefficients of the starts that a
    schedule takes add up to the limit at most. Coefficients and limits are ints or
    `fractions.Fraction`; starts complete by ``horizon``, within which every optimal schedule does.
    It claims that every optimal schedule satisfies every row; `hindsight.check_cut` tries
    whether one does not. The instance is the one that was given, without idle gaps.

    What has the same module and qualified name takes the place of the one before, with a warning.

    Raises
    ------
    ValueError
        Another function has the name.
    """
    return CUTS.register(name)


def cut_names() -> list[str]:
    """The registered cuts, sorted."""
    return CUTS.names()
