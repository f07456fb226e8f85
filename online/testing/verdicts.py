"""What the checks of a policy came to, readable."""

from __future__ import annotations

from dataclasses import dataclass

from hindsight.testing.verdicts import CheckError, CheckReport, Verdict

__all__ = ["PolicyCheckError", "PolicyReport", "Verdict"]


class PolicyCheckError(CheckError):
    """A policy does not hold what every policy must; the message is the report."""


@dataclass(frozen=True)
class PolicyReport(CheckReport):
    """What `check_policy` found.

    Attributes
    ----------
    policy : str
        Its label.
    """

    @property
    def policy(self) -> str:
        """Its label."""
        return self.subject.removeprefix("policy ")

    def raise_for_failures(self) -> None:
        """Do nothing where every check passed.

        Raises
        ------
        PolicyCheckError
            With the report.
        """
        if self.failures:
            raise PolicyCheckError(str(self))
