"""A table, and how it is written: text, CSV, Markdown, LaTeX."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from instances.files import TableWriter

LATEX_LETTERS = 75
"""Of a line of a page."""


def csv_text(lines: Iterable[Iterable[Any]]) -> str:
    """Write lines of cells as CSV."""
    stream = io.StringIO()
    TableWriter(stream).writerows(lines)
    return stream.getvalue()


@dataclass(frozen=True)
class Table:
    """Cells ready for print.

    Attributes
    ----------
    title : str
        One line, or empty.
    columns : tuple[str, ...]
        Headings.
    rows : tuple[tuple[str, ...], ...]
        As many cells each as there are headings.
    text_columns : frozenset[str]
        Headings whose cells are aligned to the left; the others are numbers.
    main_columns : tuple[str, ...]
        Headings of the columns that answer, the most important first. Other headings may be
        named too. Empty: all columns answer, the most important on the left.
    prose_columns : frozenset[str]
        Headings of text columns whose cells may continue on the next line after a blank. All
        other cells are names and numbers, which stay in one piece.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[str] = frozenset()
    main_columns: tuple[str, ...] = ()
    prose_columns: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Table({self.title[:60]!r}, {len(self.rows)} rows, {len(self.columns)} columns)"

    @property
    def by_importance(self) -> list[str]:
        """Headings of the columns that answer, the most important first."""
        return [name for name in self.main_columns if name in self.columns] or [*self.columns]

    def only(self, names: Collection[str]) -> Table:
        """Leave out the columns whose headings are not in ``names``."""
        kept = [place for place, name in enumerate(self.columns) if name in names]
        columns, *rows = (tuple(row[k] for k in kept) for row in (self.columns, *self.rows))
        return replace(self, columns=columns, rows=tuple(rows))

    def to_text(self) -> str:
        """Write aligned columns, for a file or a terminal of any width."""
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
        """Write headings and cells as CSV."""
        return csv_text([self.columns, *self.rows])

    def to_markdown(self) -> str:
        """Write a pipe table below its title."""
        rule = [":---" if name in self.text_columns else "---:" for name in self.columns]
        body = [self.columns, tuple(rule), *self.rows]
        lines = [f"**{_escape(self.title)}**", ""] if self.title else []
        for number, cells in enumerate(body):
            shown = cells if number == 1 else [_escape(cell) for cell in cells]
            lines.append("| " + " | ".join(shown) + " |")
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """Write a ``table`` with the rules of booktabs, its title as the caption.

        One too wide for a page is shrunk to the width of the text, for which it needs graphicx.
        """
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        wide = sum(widths) > LATEX_LETTERS
        alignment = "".join("l" if name in self.text_columns else "r" for name in self.columns)
        lines = [
            f"% needs \\usepackage{{booktabs{', graphicx' if wide else ''}}}",
            "\\begin{table}",
            "\\centering",
            *([f"\\caption{{{_escape_latex(self.title)}}}"] if self.title else []),
            *(["\\resizebox{\\linewidth}{!}{%"] if wide else []),
            f"\\begin{{tabular}}{{{alignment}}}",
            "\\toprule",
        ]
        for number, cells in enumerate((self.columns, *self.rows)):
            escaped = [_escape_latex(cell) for cell in cells]
            # A row that begins so would pass for an argument of the line break before.
            if escaped and escaped[0].startswith(("[", "*")):
                escaped[0] = "{" + escaped[0] + "}"
            lines.append(" & ".join(escaped) + r" \\")
            if number == 0:
                lines.append("\\midrule")
        lines += ["\\bottomrule", "\\end{tabular}" + ("}" if wide else ""), "\\end{table}"]
        return "\n".join(lines) + "\n"


def table_of(
    title: str,
    rows: Sequence[Mapping[str, str]],
    text: Collection[str] = (),
    main: Sequence[str] = (),
    prose: Collection[str] = (),
) -> Table:
    """Make a table of rows whose cells stand below their headings, alike in all rows."""
    cells = tuple(tuple(row.values()) for row in rows)
    headings = tuple(rows[-1]) if rows else ()
    return Table(title, headings, cells, frozenset(text), tuple(main), frozenset(prose))


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
