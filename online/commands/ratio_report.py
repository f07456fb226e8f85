"""Ratios as tables, pages and documents: the screen and the files of the command `ratios`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from hindsight.outcomes.result import rounded_down
from instances.files import csv_text
from online.tables import Table, table_of
from online.trials.intervals import LATENCY, ON_TIME, Interval
from online.trials.library import source_of
from online.trials.table import BY, grouped, table_rows
from online.trials.trial import NOT_RUN, Trial, as_row

SUFFIXES = (".csv", ".md", ".tex", ".html")

FEW_TRIALS = 10
"""Trials up to which they are shown one by one."""

MAIN = ("trials", "failed", "proved", "mean latency, s", "mean ratio", "95 %", "max ratio")
"""Columns of figures on the screen and in LaTeX; files have all columns."""

FIGURES = (*MAIN, "ratio of totals", "ratio of waitings")
COLUMNS = (*BY, *FIGURES)

IMPORTANT = (*BY, "mean ratio", "failed", "95 %", "trials", "max ratio")
"""Columns in the order in which they are kept if a terminal is too narrow for all."""

MOST_REASONS = 20

COLUMN_NOTES = {
    "mean ratio": "mean ratio, max ratio: proved for these instances",
    "95 %": "95 %: the mean ratio over all such instances (bootstrap)",
}
TWO_OPTIMA_NOTE = (
    "Ratios to two optima, which do not compare: policies that preempt are divided by the "
    "preemptive optimum, which is less"
)
ONE_OPTIMUM_NOTE = "--preemption keep divides all costs by the preemptive optimum"


@dataclass(frozen=True)
class Report:
    """Trials as the files and the screen of the command."""

    trials: Sequence[Trial]
    notes: Sequence[str]
    columns: Sequence[str] | None

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """Return rows with all columns; the bootstrap is drawn once for screen and files."""
        return table_rows(self.trials)

    def table(self, *, whole: bool = False) -> Table:
        """Return the table with the columns asked for, else the main ones or all."""
        names = list(dict.fromkeys(one.compared_with for one in self.trials)) or ["optimum"]
        is_latency = all(one.goal == LATENCY for one in self.trials)
        cost = "total latency" if is_latency else self.trials[0].goal.partition(":")[0]
        given = self._rows[0] if self._rows else ()
        shown = self.columns
        if shown is None:
            shown = [name for name in given if whole or name in MAIN or name not in FIGURES]
        rows = [{_words(name): row.get(name) for name in shown} for row in self._rows]
        main = [_words(name) for name in IMPORTANT]
        return table_of(rows, f"{cost} / {' or '.join(names)}", main=main)

    def _single(self) -> Table:
        """Return a table with a row for each trial."""
        optima = dict.fromkeys((_with_unit(one.compared_with, one) for one in self.trials), "")
        rows = [
            {
                "instance": one.instance,
                **({"group": one.group} if one.group else {}),
                "policy": one.policy,
                **({"router": one.router} if one.router else {}),
                _with_unit("cost", one): _cost(one),
                **optima,
                _with_unit(one.compared_with, one): one.optimum.text(4 if one.batch_time else 0),
                "ratio": one.ratio,
            }
            for one in self.trials
        ]
        return table_of(rows, numbers=(*(_with_unit("cost", one) for one in self.trials), *optima))

    def _reasons(self) -> Table:
        """Return a table of why trials have no ratio."""
        without = [one for one in self.trials if one.ratio is None]
        counts = Counter((one.policy, one.status, one.reason) for one in without)
        rows = [
            {
                "policy": policy,
                "trials": count,
                "status": status,
                "reason": reason or "no optimum was asked for",
            }
            for (policy, status, reason), count in counts.most_common(MOST_REASONS)
        ]
        return table_of(rows, "without a ratio")

    def lines(self) -> list[str]:
        """Return notes."""
        optima, shown = {one.compared_with for one in self.trials}, self.table().columns
        return [
            *(note for name, note in COLUMN_NOTES.items() if name in shown),
            *([TWO_OPTIMA_NOTE, ONE_OPTIMUM_NOTE] if len(optima) > 1 else []),
            *self.notes,
        ]

    def parts(self) -> list[Any]:
        """Return tables and notes of the screen."""
        single = [self._single(), ""] if 0 < len(self.trials) <= FEW_TRIALS else []
        table = [self.table(), ""] if self.trials else []
        return [*single, *table, *self.lines(), *filter(_has_rows, [self._reasons()])]

    def document(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "notes": self.lines(),
            "interrupted": any(one.status == NOT_RUN for one in self.trials),
            "policies": self._rows,
            "trials": [_numbers(one) for one in self.trials],
        }

    def text(self, suffix: str) -> str:
        """Return the text of a file."""
        if suffix == ".csv":
            rows = [_flat(_numbers(one)) for one in self.trials]
            return csv_text([rows[0] if rows else [], *(row.values() for row in rows)])
        if suffix == ".html":
            return self._page()
        table = self.table(whole=suffix == ".md")
        if suffix == ".tex":
            count = len(grouped(self.trials, ["instance", "problem"]))
            sources = ", ".join(dict.fromkeys(map(source_of, self.trials)))
            title = f"{table.title}, {count} instance{'s' * (count != 1)} of {sources}"
            # Readers of a paper have no command whose options notes could name.
            notes = [note for note in self.lines() if "--" not in note]
            return replace(table, title=title).to_latex(notes)
        listed = "".join(f"- {note}\n" for note in self.lines())
        others = filter(_has_rows, [self._single(), self._reasons()])
        shown = [one.to_markdown() for one in others]
        return "\n".join(["# Competitive ratios\n", table.to_markdown(), listed, *shown])

    def _page(self) -> str:
        from pandas import DataFrame

        from online.pictures.page import page

        shown, single, reasons = (
            DataFrame(one.rows, columns=one.columns)
            for one in (self.table(), self._single(), self._reasons())
        )
        sections = {"Notes": [self.lines()], "Trials": [single]}
        if len(reasons):
            sections["Without a ratio"] = [reasons]
        title = self.table().title
        return page(title, title, [shown, *_picture(self._rows)], sections)


def _has_rows(table: Table) -> bool:
    return bool(table.rows)


def _picture(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Draw the mean ratios, lines where an optimum is not proved."""
    known = [row for row in rows if "mean ratio" in row and row["mean ratio"].lower is not None]
    if not known:
        return []
    from online.pictures.page import bars

    drawn = []
    for row in known:
        low, high = row["mean ratio"].ends
        name = ", ".join(str(value) for key, value in row.items() if key not in FIGURES)
        drawn.append((name, low, low if high is None else high))
    return [bars(drawn, "mean ratio; 1 is the optimum", base=1.0)]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _with_unit(name: str, trial: Trial) -> str:
    """Add the unit to the name of a cost or an optimum."""
    if trial.goal.startswith(ON_TIME):
        return name
    return f"{name.removesuffix(' in seconds')}, {'s' if trial.batch_time else 'rounds'}"


def _cost(trial: Trial) -> Any:
    if isinstance(trial.cost, Fraction):
        return Interval(trial.cost, trial.cost)
    return trial.status if trial.cost is None else trial.cost


def _numbers(trial: Trial) -> dict[str, Any]:
    """Return the attributes of a trial with fractions as floats, bounds rounded outwards."""

    def number(name: str, value: Any) -> Any:
        if not isinstance(value, Fraction):
            return value
        if name in ("lower", "certified"):
            return rounded_down(value)
        return -rounded_down(-value) if name == "upper" else float(value)

    return {name: number(name, value) for name, value in as_row(trial).items()}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its ratio in two columns."""
    ratio = row.pop("ratio")
    ends = (None, None) if ratio is None else ratio.ends
    return {**row, "ratio_lower": ends[0], "ratio_upper": ends[1]}
