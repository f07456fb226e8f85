"""Trials of a results file as what a report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from online.comparison.trial_records import TrialRecord
from online.experiment import Predictions, Result
from online.experiment.ratio_table import SEPARATE


def records_of_results(results: Sequence[Result]) -> list[TrialRecord]:
    """One record for each trial that has been run, in order; the others are left out.

    Raises
    ------
    InvalidValueError
        A stored schedule that does not pass the checker.
    """
    ran = [(result, shown) for result in results if (shown := result.shown) is not None]
    names = [name for name in SEPARATE if len({getattr(each, name) for each, _ in ran}) > 1]
    return [
        replace(
            shown,
            group=", ".join(str(getattr(result, name)) for name in names),
            told_exactly=result.predictions == Predictions().label,
            draw=result.draw,
        )
        for result, shown in ran
    ]
