"""User-defined lower bounds.

A bound is a function of an instance. It returns one of two things:

* A number, an integer or a fraction: a *claim* that no schedule has a lower cost. It is rounded up,
because costs are integers. The claim is not proved: `hindsight.solve` reports it in ``bounds`` and
does not use it.
* Prices (`hindsight.outcomes.proofs`): a *proof*. For any prices the certificate checker computes
the exact bound that they prove. So this bound is certified, and the prices can be written into a
certificate.

A claim that exceeds the cost of a known schedule raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from hindsight.outcomes.problem import Problem
from hindsight.outcomes.proofs import Proof
from instances import Instance, InvalidTypeError, InvalidValueError, UnknownNameError
from instances.user_modules import attribute_of, described, import_source
from instances.validation import as_exact

BoundFunction: TypeAlias = Callable[[Instance], int | Fraction | Proof]
"""A user-defined lower bound: function from an instance to a number, or to prices that prove it."""

AnyBound: TypeAlias = str | BoundFunction
"""A user-defined lower bound: a function, or the text ``FILE.py:NAME`` that names one."""


class OwnBound(NamedTuple):
    """A user-defined lower bound on the cost of every schedule of an instance.

    Attributes
    ----------
    label : str
        ``bound 'NAME'``, where NAME is the name of the function. Results and error messages use it.
        If several bounds have the same name, the second and later ones are numbered.
    function : Callable[[Instance], object]
        Function that returns the bound of an instance: a number, or prices that prove a bound.
    """

    label: str
    function: Callable[[Instance], object]

    @classmethod
    def found(cls, given: Any) -> OwnBound:
        """Return the bound for a given function, or for ``FILE.py:NAME`` that names a function.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            There is no such file, or NAME is not a function.
        UnknownNameError
            The file does not define NAME.
        """
        function = given
        if isinstance(given, str):
            where, _, name = given.rpartition(":")
            if not where or not name:
                raise InvalidValueError(None, "bound", given, "is not FILE.py:NAME")
            module = import_source(where, field="bound")
            function = attribute_of(module, name)
            if function is None:
                named, home = vars(module).items(), module.__name__
                own = [key for key, one in named if getattr(one, "__module__", None) == home]
                raise UnknownNameError(f"bound of {where}", name, own)
        if not callable(function):
            reason = "is neither a function nor FILE.py:NAME of one"
            raise InvalidTypeError(None, "bound", function, reason)
        name = getattr(function, "__name__", type(function).__name__)
        return cls(f"bound {name!r}", function)

    @classmethod
    def all_of(cls, given: Any) -> tuple[OwnBound, ...]:
        """Return all bounds that the user gave: one bound, or an iterable of bounds.

        Bounds of equal name are numbered, because results report bounds by name.
        """
        several = isinstance(given, Iterable) and not isinstance(given, str)
        found = list(map(cls.found, given if several else [given]))
        labels = [one.label for one in found]
        for k, label in enumerate(labels):
            number = labels[: k + 1].count(label)
            if number > 1:
                found[k] = found[k]._replace(label=f"{label[:-1]} ({number})'")
        return tuple(found)

    def of(self, problem: Problem) -> tuple[int | Fraction, Proof | None]:
        """Return the lower bound on the cost of a problem, and the prices that prove it.

        If the function returns a number, the bound is this number, which is only claimed. The
        second entry is then None.

        Raises
        ------
        InvalidValueError
            The function raised an error (the message names the line), or its prices belong to
            another instance or goal.
        InvalidTypeError
            The function returned neither an exact number nor prices.
        """
        value = described(lambda: self.function(problem.source), self.label[7:-1], "bound")
        if not isinstance(value, Proof):
            return as_exact(value, f"{self.label}, which returns no prices", "value"), None
        if problem.goal == "makespan":
            raise InvalidValueError(self.label, "value", value, "are prices for total latency only")
        # Import the checker of prices here, not above: it takes 40 ms to load, and few solves have
        # prices given by the user.
        from hindsight.certificates.writing import bound_of_prices

        preemptive = problem.preemption == "keep" or False not in value.optima
        return bound_of_prices(problem.source, value, preemptive=preemptive), value
