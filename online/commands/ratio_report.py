"""Reports of the subcommand `ratios`: tables on the screen, and files of several formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from hindsight.outcomes.result import rounded_down
from instances.files import csv_text
from instances.problem.conditions import conditions
from instances.version import __version__
from online.tables import Table, table_of
from online.trials.intervals import LATENCY, MAKESPAN, ON_TIME, Interval
from online.trials.library import source_of
from online.trials.table import BY, grouped, table_rows
from online.trials.trial import COMPLETED, NOT_RUN, Trial, as_row

SUFFIXES = (".csv", ".md", ".tex", ".html")

FEW_TRIALS = 10
"""If there are at most this many trials, the screen also shows a table with a row for each."""

IMPORTANT = ("policy", "mean ratio", *BY, "95 %", "max ratio", "proved", "failed", "trials")
"""Columns of the table of policies by importance. A narrow terminal shows the first of these."""

MOST_REASONS = 20


@dataclass(frozen=True)
class Report:
    """Report on the trials of the subcommand `ratios`, for the screen and for files.

    ``notes`` has remarks on the sources of instances, in the order in which they are printed.
    """

    trials: Sequence[Trial]
    notes: Sequence[str]

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table of policies, with all columns. They are computed once."""
        return table_rows(self.trials)

    def table(self) -> Table:
        """Return the table with the mean ratio of each policy."""
        names = list(dict.fromkeys(one.compared_with for one in self.trials)) or ["optimum"]
        is_latency = all(one.goal == LATENCY for one in self.trials)
        cost = "total latency" if is_latency else self.trials[0].goal.partition(":")[0]
        rows = [{_words(name): it for name, it in row.items()} for row in self._rows]
        title = f"{cost} / {' or '.join(names)}"
        return table_of(rows, title, main=[_words(name) for name in IMPORTANT])

    def _single(self) -> Table:
        """Return a table with a row for each trial: cost, optimum and ratio."""
        costs = dict.fromkeys(_with_unit("cost", one) for one in self.trials)
        optima = dict.fromkeys((_with_unit(one.compared_with, one) for one in self.trials), "")
        names = ("instance", "group", "policy", "router")
        rows = [
            {
                **{name: text for name in names if (text := getattr(one, name))},
                _with_unit("cost", one): _cost(one),
                **optima,
                _with_unit(one.compared_with, one): one.optimum.text(4 if one.batch_time else 0),
                "ratio": one.ratio,
            }
            for one in self.trials
        ]
        return table_of(rows, numbers=(*costs, *optima))

    def _reasons(self) -> Table:
        """Return a table of reasons why trials have no ratio, with the number of trials of each."""
        counts = Counter(
            (one.policy, one.status, one.reason or "no optimum was asked for")
            for one in self.trials
            if one.ratio is None
        )
        rows = [
            {"policy": policy, "trials": count, "status": status, "reason": reason}
            for (policy, status, reason), count in counts.most_common(MOST_REASONS)
        ]
        return table_of(rows, "trials without a ratio (column failed)")

    def lines(self) -> list[str]:
        """Return the notes to print: explanations of the columns, then `Report.notes`."""
        compared = {one.compared_with for one in self.trials}
        has_two, keeps = len(compared) > 1, "preemptive optimum" in compared
        limits = dict.fromkeys(f"{one.time_limit:g} s" for one in self.trials if one.time_limit)
        proved = all(one.is_proved for one in self.trials if one.ratio)
        lost, row = any(map(_needs_preemption, self.trials)), next(iter(self._rows), {})
        own = {
            "mean ratio, max ratio: proved for these instances": bool(row),
            "[a, b] contains the value, as not all optima are proved": not proved,
            "95 %: confidence interval of the mean ratio (bootstrap of instances)": "95 %" in row,
            "trials, failed, proved: numbers of pairs of instance and seed": bool(row),
            f"time limit for each optimum: {', '.join(limits)}": bool(limits),
            **{f"{one.compared_with} holds for: {_conditions(one)}": True for one in self.trials},
            "Preemption is free for policies too, unless they process tokens again": keeps,
            "Ratios to two optima do not compare: the preemptive optimum is less": has_two,
            "--preemption keep divides all costs by the preemptive optimum": has_two,
            "Runs that preempt or pause need --preemption keep, and no --optimum records": lost,
        }
        return [*(note for note, applies in own.items() if applies), *self.notes]

    def parts(self, *, whole: bool = False) -> list[Any]:
        """Return the tables and notes of the report in order.

        These are the parts for the screen, or with ``whole`` the parts for a file.
        """
        single = [self._single(), ""] if whole or len(self.trials) <= FEW_TRIALS else []
        found = [*single, self.table(), "", *self.lines(), self._reasons()]
        return [part for part in found if not isinstance(part, Table) or part.rows]

    def document(self) -> dict[str, Any]:
        """Return the report as a document for JSON: notes, rows of policies, and trials."""
        return {
            "notes": self.lines(),
            "interrupted": any(one.status == NOT_RUN for one in self.trials),
            "policies": self._rows,
            "trials": [_numbers(one) for one in self.trials],
        }

    def text(self, suffix: str) -> str:
        """Return the content of a file with this suffix.

        ``.csv`` has a row for each trial, ``.tex`` the table of policies, ``.md`` and ``.html`` the
        whole report.
        """
        if suffix == ".csv":
            rows = [_numbers(one) for one in self.trials]
            for row in rows:
                ratio = row.pop("ratio")
                row["ratio_lower"], row["ratio_upper"] = ratio.ends if ratio else (None, None)
            return csv_text([rows[0] if rows else [], *(row.values() for row in rows)])
        table = self.table()
        if suffix == ".tex":
            count = len(grouped(self.trials, ["instance", "problem"]))
            sources = ", ".join(dict.fromkeys(map(source_of, self.trials)))
            title = f"{table.title}, {count} instance{'s' * (count != 1)} of {sources}"
            # Notes that name options of the command are comments in a table for a paper.
            notes = [*self.lines(), f"llm-hindsight {__version__}"]
            hints = (f"% {' '.join(note.split())}\n" for note in notes if "--" in note)
            shown = (note for note in notes if "--" not in note)
            return "".join(hints) + replace(table, title=title).to_latex(shown)
        parts = self.parts(whole=True)
        if suffix == ".html":
            return self._page(table.title, parts)
        shown = (
            part.to_markdown() if isinstance(part, Table) else f"- {part}\n" if part else ""
            for part in parts
        )
        return "\n".join(["# Competitive ratios\n", *shown])

    def _page(self, title: str, parts: Sequence[Any]) -> str:
        from pandas import DataFrame

        from online.pictures.page import bars, page

        drawn = []
        for row in self._rows:
            if (ratio := row.get("mean ratio")) and ratio.lower is not None:
                low, high = ratio.ends
                name = ", ".join(str(row[key]) for key in BY if key in row)
                drawn.append((name, low, high or low))
        picture = [bars(drawn, "mean ratio; 1 is the optimum", base=1.0)] if drawn else []
        shown = (
            DataFrame(part.rows, columns=part.columns) if isinstance(part, Table) else part
            for part in parts
        )
        return page(title, title, [*picture, *shown])


def _words(name: str) -> str:
    return name.replace("_", " ")


def _with_unit(name: str, trial: Trial) -> str:
    """Return the heading of a column of costs or optima: its name, and the unit rounds or seconds.

    A column with numbers of requests on time has no unit.
    """
    if trial.goal.startswith(ON_TIME):
        return name
    return f"{name.removesuffix(' in seconds')}, {'s' if trial.batch_time else 'rounds'}"


def _conditions(trial: Trial) -> str:
    return conditions(bool(trial.batch_time), preempts=trial.preemption != "never")


def _needs_preemption(trial: Trial) -> bool:
    is_whole = trial.goal != MAKESPAN and trial.preemption == "never" and trial.status == COMPLETED
    return is_whole and bool(trial.reason) and not trial.reason.startswith("no optimum")


def _cost(trial: Trial) -> Any:
    if isinstance(trial.cost, Fraction):
        return Interval(trial.cost, trial.cost)
    return trial.status if trial.cost is None else trial.cost


def _numbers(trial: Trial) -> dict[str, Any]:
    """Return the attributes of a trial by name, with fractions as floats.

    Lower bounds are rounded down, upper bounds up.
    """
    row = as_row(trial)
    for name, value in row.items():
        if isinstance(value, Fraction):
            down, up = rounded_down(value), -rounded_down(-value)
            row[name] = {"lower": down, "certified": down, "upper": up}.get(name, float(value))
    return row
