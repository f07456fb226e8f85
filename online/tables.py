"""Comparisons as tables: text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

from instances.files import TableWriter

from .comparison import PolicySummary, Record
from .ratios import Interval


@dataclass(frozen=True)
class Table:
    """Cells ready for print.

    Attributes
    ----------
    title : one line, or empty.
    columns : headings.
    rows : as many cells each as there are headings.
    text_columns : headings whose cells are aligned to the left; the others are numbers.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[str] = frozenset()

    def to_text(self) -> str:
        """Aligned columns, for a file or a terminal of any width."""
        widths = [
            max(len(cell) for cell in column)
            for column in zip(self.columns, *self.rows, strict=True)
        ]
        lines = [self.title] if self.title else []
        for cells in (self.columns, tuple("-" * width for width in widths), *self.rows):
            padded = [
                cell.ljust(width) if name in self.text_columns else cell.rjust(width)
                for name, cell, width in zip(self.columns, cells, widths, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Headings and cells as CSV."""
        stream = io.StringIO()
        TableWriter(stream).writerows([self.columns, *self.rows])
        return stream.getvalue()

    def to_markdown(self) -> str:
        """A pipe table below its title."""
        rule = [":---" if name in self.text_columns else "---:" for name in self.columns]
        body = [self.columns, tuple(rule), *self.rows]
        lines = [f"**{_escape(self.title)}**", ""] if self.title else []
        for number, cells in enumerate(body):
            shown = cells if number == 1 else [_escape(cell) for cell in cells]
            lines.append("| " + " | ".join(shown) + " |")
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """A ``table`` with the rules of booktabs, its title as the caption."""
        alignment = "".join("l" if name in self.text_columns else "r" for name in self.columns)
        lines = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            *([f"\\caption{{{_escape_latex(self.title)}}}"] if self.title else []),
            f"\\begin{{tabular}}{{{alignment}}}",
            "\\toprule",
        ]
        for number, cells in enumerate((self.columns, *self.rows)):
            escaped = [_escape_latex(cell) for cell in cells]
            # A row that begins with a bracket would pass for an argument of the line break before.
            if escaped and escaped[0].startswith("["):
                escaped[0] = "{" + escaped[0] + "}"
            lines.append(" & ".join(escaped) + r" \\")
            if number == 0:
                lines.append("\\midrule")
        lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}"]
        return "\n".join(lines) + "\n"


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{sign: "\\" + sign for sign in "&%$#_{}"},
    }
)


def _escape_latex(cell: str) -> str:
    # One pass over the text, so that the braces of a replacement are not escaped again.
    return " ".join(cell.translate(_LATEX).split())


def _escape(cell: str) -> str:
    return " ".join(cell.replace("\\", "\\\\").replace("|", "\\|").split())


def records_table(records: Sequence[Record]) -> Table:
    """One row for each record: total latency, the interval of the optimum, their ratio."""
    rows = tuple(
        (
            record.instance or "",
            str(record.requests),
            str(record.memory_limit),
            record.policy_label,
            record.status if record.total_latency is None else str(record.total_latency),
            _bounds(record.optimum_lower, record.optimum_upper),
            "" if record.ratio is None else str(record.ratio),
        )
        for record in records
    )
    columns = ("instance", "n", "M", "policy", "total_latency", "optimum", "ratio")
    return Table("", columns, rows, frozenset({"instance", "policy"}))


def summary_table(summaries: Sequence[PolicySummary]) -> Table:
    """One row for each policy: the three statistics, the proved optima, the failed runs."""
    rows = tuple(
        (
            summary.policy,
            str(summary.trials),
            str(summary.failed),
            f"{summary.proved}/{summary.completed}",
            str(summary.mean_ratio),
            str(summary.max_ratio),
            str(summary.ratio_of_totals),
        )
        for summary in summaries
    )
    columns = (
        *("policy", "trials", "failed", "proved", "mean_ratio", "max_ratio"),
        "ratio_of_totals",
    )
    return Table(_caption(summaries), columns, rows, frozenset({"policy"}))


def _caption(summaries: Sequence[PolicySummary]) -> str:
    caption = "total latency / hindsight optimum"
    unproved = max((summary.completed - summary.proved for summary in summaries), default=0)
    if unproved:
        optima = "optimum" if unproved == 1 else "optima"
        caption += f"; {unproved} {optima} unproved: [at least, at most]"
    failed = sum(summary.failed for summary in summaries)
    if failed:
        caption += f"; {failed} failed runs enter no ratio"
    return caption


RECORD_COLUMNS = (
    *("instance", "digest", "n", "memory_limit", "policy", "params", "seed", "status"),
    *("total_latency", "evictions", "optimum_upper", "optimum_lower", "optimum_certified"),
    *("proved", "ratio_lower", "ratio_upper", "stop_reason", "solve_seconds"),
)


def records_csv(records: Sequence[Record]) -> str:
    """Every field of every record as CSV; an empty cell where something is not known."""
    stream = io.StringIO()
    writer = TableWriter(stream)
    writer.writerow(RECORD_COLUMNS)
    for record in records:
        ratio = record.ratio or Interval(None, None)
        seconds = record.solve_seconds
        writer.writerow(
            [
                record.instance,
                record.digest,
                record.requests,
                record.memory_limit,
                record.policy,
                json.dumps(dict(record.params), sort_keys=True),
                record.seed,
                record.status,
                record.total_latency,
                record.evictions,
                record.optimum_upper,
                record.optimum_lower,
                record.optimum_certified,
                str(record.is_proved).lower(),
                None if ratio.lower is None else float(ratio.lower),
                None if ratio.upper is None else float(ratio.upper),
                record.stop_reason,
                None if seconds is None else f"{seconds:.3f}",
            ]
        )
    return stream.getvalue()


def report_markdown(
    records: Sequence[Record], summaries: Sequence[PolicySummary], notes: Sequence[str] = ()
) -> str:
    """Summary, records and notes as a Markdown page."""
    parts = ["# Competitive ratios\n", summary_table(summaries).to_markdown()]
    if notes:
        parts.append("".join(f"- {_escape(note)}\n" for note in notes))
    parts.append(records_table(records).to_markdown())
    return "\n".join(parts)


def _bounds(lower: int | None, upper: int | None) -> str:
    if lower is not None and lower == upper:
        return str(upper)
    low = "?" if lower is None else str(lower)
    high = "?" if upper is None else str(upper)
    return f"[{low}, {high}]"
