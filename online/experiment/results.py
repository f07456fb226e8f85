"""A results file read back whole: as a list of trials, a data frame, the table of ratios."""

from __future__ import annotations

import os
from typing import Any

from instances import FileFormatError, InvalidTypeError, InvalidValueError
from instances.frames import data_frame
from online.comparison.ratio_tables import record_cells
from online.comparison.record_list import Records
from online.comparison.trial import NOT_RUN, Trial
from online.runtime.table import Table

from .declaration import BATCH_TIME
from .plan import PREEMPTIVE
from .ratio_table import ratio_rows, ratio_table
from .reading import trial_of_rows
from .store import (
    OPTIMUM_COLUMNS,
    PREEMPTED,
    TRIAL_COLUMNS,
    OptimumRow,
    PlaceRow,
    TrialRow,
    open_for_reading,
    row_of,
)


class Results(Records):
    """Trials in the order of their experiments, run or not."""

    def __repr__(self) -> str:
        return f"Results({len(self)} trials, {len(self.run)} of them run)"

    @property
    def run(self) -> Records:
        """Those that have been run."""
        return Records(trial for trial in self if trial.status != NOT_RUN)

    def frame(self) -> Any:
        """A pandas DataFrame, one line a trial that was run; intervals are two columns.

        Raises
        ------
        ImportError
            Pandas is not installed.
        """
        place = ("experiment", "version", "family", "draw", "predictions")
        return data_frame(
            [
                {name: getattr(trial, name) for name in place} | record_cells(trial)
                for trial in self.run
            ]
        )

    def ratios(self, *, confidence_level: float = 0.95) -> Table:
        """The table of ratios with confidence intervals, for print: text, Markdown, LaTeX."""
        return ratio_table(ratio_rows(self, confidence_level=confidence_level))

    def _repr_html_(self) -> str:
        return self.ratios()._repr_html_()


def read_results(path: str | os.PathLike[str], experiment: str | None = None) -> Results:
    """Every trial asked for, in the order of the experiments: run or not.

    Parameters
    ----------
    path : str | os.PathLike[str]
        A results file.
    experiment : str or None, default None
        Name of one; None reads all that the file holds.

    Raises
    ------
    OSError, FileFormatError
        The file is not there, is not a results file, or holds what cannot be true.
    InvalidValueError
        It holds no such experiment.
    """
    trial = ", ".join(f"t.{name}" for name in TRIAL_COLUMNS)
    optimum = ", ".join(f"o.{name}" for name in OPTIMUM_COLUMNS)
    with open_for_reading(path) as database:
        rows = database.execute(
            "SELECT e.name, e.version, m.position, m.family, m.draw, m.name, m.policy,"
            f" m.predictions, i.document, json_extract(e.declaration, '$.{BATCH_TIME}'),"
            f" {trial}, {optimum}"
            " FROM members m JOIN experiments e ON e.id = m.experiment"
            " LEFT JOIN trials t ON t.key = m.trial"
            " LEFT JOIN optima o ON o.instance = t.instance AND o.solver ="
            f""" CASE WHEN {PREEMPTED} THEN '{{"{PREEMPTIVE}":' || e.solver || '}}'"""
            " ELSE e.solver END"
            " AND o.version = e.version AND o.sources = e.sources"
            " LEFT JOIN instances i ON i.digest = t.instance"
            " ORDER BY e.id, m.position"
        ).fetchall()
    results = Results(_trial(path, row) for row in rows)
    if experiment is None:
        return results
    chosen = Results(trial for trial in results if trial.experiment == experiment)
    if not chosen:
        known = ", ".join(dict.fromkeys(trial.experiment for trial in results)) or "none"
        reason = f"is not in {os.fspath(path)}, which holds: {known}"
        raise InvalidValueError(None, "experiment", experiment, reason)
    return chosen


def _trial(path: str | os.PathLike[str], cells: tuple[Any, ...]) -> Trial:
    ends = (10, 10 + len(TRIAL_COLUMNS))
    head, trial, optimum = cells[: ends[0]], cells[ends[0] : ends[1]], cells[ends[1] :]
    try:
        return trial_of_rows(
            row_of(PlaceRow, head),
            None if trial[0] is None else row_of(TrialRow, trial),
            None if optimum[0] is None else row_of(OptimumRow, optimum),
        )
    except (FileFormatError, InvalidValueError, InvalidTypeError) as error:
        where = f"place {head[2]} of experiment {head[0]!r}"
        raise FileFormatError(path, f"{where}: {error}") from None


def experiment_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the experiments in a results file, in the order in which they were entered.

    Raises
    ------
    OSError, FileFormatError
        The file is not there, or is not a results file.
    """
    with open_for_reading(path) as database:
        rows = database.execute("SELECT name FROM experiments ORDER BY id").fetchall()
    return list(dict.fromkeys(str(name) for (name,) in rows))
