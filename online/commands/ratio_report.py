"""Ratios as tables, pages and documents: the screen and the files of the command `ratios`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from hindsight.outcomes.result import rounded_down as down
from instances import InvalidValueError
from instances.files import csv_text
from online.tables import Table, table_of
from online.trials.intervals import LATENCY, Interval, rounded_down, rounded_up
from online.trials.table import BY, grouped, table_rows
from online.trials.trial import NOT_RUN, Trial, as_row

SUFFIXES = (".csv", ".md", ".tex", ".html")

FEW_TRIALS = 10
"""Trials up to which they are shown one by one."""

MAIN = ("trials", "failed", "proved", "mean latency, s", "mean ratio", "95 %", "max ratio")
"""Columns of figures on the screen and in LaTeX; files have all columns."""

FIGURES = (*MAIN, "ratio of totals", "ratio of waitings")

IMPORTANT = (*BY, "mean ratio", "failed", "95 %", "trials", "max ratio")
"""Columns in the order in which they are kept if a terminal is too narrow for all."""

LONGEST_NAME = 40
"""Characters of the name of a row in a picture."""

MOST_REASONS = 20

LEAST = {
    "optimum": "the least possible in hindsight",
    "preemptive optimum": "the least possible in hindsight with preemption",
    "optimum in seconds": "the least possible in hindsight of any scheduler",
}
"""Optima of total latency in plain words."""

CONFIDENCE_NOTE = (
    "mean ratio, max ratio: proved for these instances; 95 %: the mean ratio over all such "
    "instances (bootstrap)"
)
TWO_OPTIMA_NOTE = (
    "Ratios to two optima, which do not compare: policies that preempt are divided by the "
    "preemptive optimum, which is less. --preemption keep divides all by it"
)


def check_columns(text: str | None) -> list[str] | None:
    """Return the columns that a text names; None stands for the main ones.

    Raises
    ------
    InvalidValueError
        A name that is not one of a column.
    """
    names = None if text is None else text.split(",")
    for name in names or ():
        if name not in (*BY, *FIGURES):
            reason = f"is not a column ({', '.join((*BY, *FIGURES))})"
            raise InvalidValueError(None, "--columns", name, reason)
    return names


@dataclass(frozen=True)
class Report:
    """Trials as the files and the screen of the command."""

    trials: Sequence[Trial]
    notes: Sequence[str]
    columns: Sequence[str] | None

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """Rows with all columns; the bootstrap is drawn once for the screen and all files."""
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
        rows = [{name: row.get(name) for name in shown} for row in self._rows]
        return table_of(rows, f"{cost} / {' or '.join(names)}", main=IMPORTANT)

    def trials_table(self) -> Table:
        """Return a table with a row for each trial."""
        rows = [
            {
                "instance": one.instance,
                **({"group": one.group} if one.group else {}),
                "policy": one.policy,
                **({"router": one.router} if one.router else {}),
                "cost": _cost(one),
                one.compared_with: one.optimum.text(4 if one.batch_time else 0),
                "ratio": one.ratio,
            }
            for one in self.trials
        ]
        return table_of(rows)

    def reasons(self) -> list[Table]:
        """Return a table of why trials have no ratio, if there are such."""
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
        return [table_of(rows, "without a ratio")] if rows else []

    def parts(self) -> list[Any]:
        """Return tables and notes of the screen."""
        if not self.trials:
            return list(self.notes)
        single = [self.trials_table(), ""] if len(self.trials) <= FEW_TRIALS else []
        return [*single, self.table(), "", *self.lines(), *self.reasons()]

    def lines(self) -> list[str]:
        """Return sentences about the ratios, and notes."""
        has_confidence = any(row.get("95 %") for row in self._rows)
        optima = {one.compared_with for one in self.trials} & LEAST.keys()
        return [
            *sentences(self.trials),
            *([CONFIDENCE_NOTE] if has_confidence else []),
            *([TWO_OPTIMA_NOTE] if len(optima) > 1 else []),
            *self.notes,
        ]

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
        if suffix == ".tex":
            table, count = self.table(), len(grouped(self.trials, ["instance", "problem"]))
            return replace(table, title=f"{table.title}, {count} instances").to_latex(self.lines())
        listed = "".join(f"- {note}\n" for note in self.lines())
        others = [one.to_markdown() for one in (self.trials_table(), *self.reasons())]
        whole = self.table(whole=True).to_markdown()
        return "\n".join(["# Competitive ratios\n", whole, listed, *others])

    def _page(self) -> str:
        from online.pictures.page import page

        sections = {"Notes": [self.lines()], "Trials": [_shown(self.trials_table())]}
        if missing := self.reasons():
            sections["Without a ratio"] = [_shown(missing[0])]
        table = self.table()
        answers = sentences(self.trials) or [table.title]
        content: list[Any] = [*answers[1:], _shown(table), *_picture(self._rows)]
        return page(table.title, answers[0], content, sections)


def _cost(trial: Trial) -> Any:
    if isinstance(trial.cost, Fraction):
        return Interval(trial.cost, trial.cost)
    return trial.status if trial.cost is None else trial.cost


def sentences(trials: Sequence[Trial]) -> list[str]:
    """Return for each optimum a sentence about mean ratios of total latency, the best first.

    Trials of several groups, or of several predictions or routers, need a table instead.
    """
    given = [one for one in trials if one.goal == LATENCY]
    if len(grouped(given, ["group", "predictions", "router"])) > 1:
        return []
    found = []
    for (compared_with,), own in grouped(given, ["compared_with"]).items():
        means = []
        for (policy,), several in grouped(own, ["policy"]).items():
            ratios = [one.ratio for one in several if one.ratio is not None]
            mean = Interval.mean_of(ratios)
            if mean.lower is not None:
                some = "" if len(ratios) == len(several) else f" ({len(ratios)} trials)"
                means.append((mean.lower, f"{_percent_above(mean)} with {policy}{some}"))
        if means:
            count = len(grouped(own, ["instance", "problem"]))
            these = "On this instance" if count == 1 else f"On average over {count} instances"
            *first, last = [text for _, text in sorted(means)]
            parts = " and ".join(filter(None, (", ".join(first), last)))
            found.append(f"{these}, total latency exceeds {LEAST[compared_with]} by {parts}.")
    return found


def _percent_above(ratio: Interval) -> str:
    least, most = (None if end is None else 100 * (end - 1) for end in (ratio.lower, ratio.upper))
    if least is None or ratio.is_exact:
        return f"{Interval(least, most).text(1)} %"
    if most is None:
        return f"at least {rounded_down(least, 1)} %"
    return f"{rounded_down(least, 1)} to {rounded_up(most, 1)} %"


def _shown(table: Table) -> Any:
    import pandas

    return pandas.DataFrame(table.rows, columns=table.columns)


def _picture(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Draw the mean ratios, lines where an optimum is not proved."""
    known = [row for row in rows if "mean ratio" in row and row["mean ratio"].lower is not None]
    if not known:
        return []
    from online.pictures.page import bars

    drawn = []
    for row in known:
        low, high = row["mean ratio"].ends
        name = ", ".join(str(v) for k, v in row.items() if k not in FIGURES)
        # The end of a long name distinguishes rows: the policy, its predictions.
        shown = name if len(name) <= LONGEST_NAME else f"...{name[-LONGEST_NAME:]}"
        drawn.append((shown, low, low if high is None else high))
    return [bars(drawn, "mean ratio; 1 is the optimum", base=1.0)]


def _numbers(trial: Trial) -> dict[str, Any]:
    """Return the attributes of a trial with fractions as floats, bounds rounded outwards."""

    def number(name: str, value: Any) -> Any:
        if not isinstance(value, Fraction):
            return value
        if name in ("lower", "certified"):
            return down(value)
        return -down(-value) if name == "upper" else float(value)

    return {name: number(name, value) for name, value in as_row(trial).items()}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its ratio in two columns."""
    ends = (None, None) if row["ratio"] is None else row["ratio"].ends
    rest = {name: value for name, value in row.items() if name != "ratio"}
    return {**rest, "ratio_lower": ends[0], "ratio_upper": ends[1]}
