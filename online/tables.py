"""A table of text cells, and its form in Markdown and in LaTeX."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LATEX_LETTERS = 75
"""Largest sum of column widths, in letters, of a LaTeX table that is not shrunk to the page."""


@dataclass(frozen=True)
class Table:
    """A table whose cells are text ready for print.

    Attributes
    ----------
    title : str
        Title in one line, or empty.
    columns : tuple[str, ...]
        Headings of the columns.
    rows : tuple[tuple[str, ...], ...]
        Rows, each with one cell for each column.
    text_columns : frozenset[str]
        Headings of the columns with text, aligned to the left. The others have numbers, aligned to
        the right.
    main_columns : tuple[str, ...]
        Headings in order of importance. A narrow terminal shows these columns before others, as
        many as fit. Headings that the table lacks are ignored. Empty: columns are important from
        left to right.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[str] = frozenset()
    main_columns: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """Return the table in Markdown, with its title in bold above it."""
        rule = [":---" if name in self.text_columns else "---:" for name in self.columns]
        body = [self.columns, tuple(rule), *self.rows]
        lines = [f"**{_escape(self.title)}**", ""] if self.title else []
        for number, cells in enumerate(body):
            shown = cells if number == 1 else [_escape(cell) for cell in cells]
            lines.append("| " + " | ".join(shown) + " |")
        return "\n".join(lines) + "\n"

    def to_latex(self, notes: Iterable[str] = ()) -> str:
        """Return the table as a LaTeX ``table`` for the package booktabs.

        The title of the table is the caption, and ``notes`` are printed below the table. A table
        with more than `LATEX_LETTERS` letters in a line is shrunk to the width of the text, which
        needs the package graphicx.
        """
        columns = zip(self.columns, *self.rows, strict=True)
        wide = sum(max(map(len, column)) for column in columns) > LATEX_LETTERS
        alignment = "".join("l" if name in self.text_columns else "r" for name in self.columns)
        escaped = [[_escape_latex(cell) for cell in row] for row in (self.columns, *self.rows)]
        for row in escaped:
            # In LaTeX "[" or "*" after a line break would be an argument of the line break.
            if row and row[0].startswith(("[", "*")):
                row[0] = "{" + row[0] + "}"
        head, *body = (" & ".join(row) + r" \\" for row in escaped)
        lines = [
            f"% needs \\usepackage{{booktabs{', graphicx' if wide else ''}}}",
            "\\begin{table}",
            "\\centering",
            *([f"\\caption{{{_escape_latex(self.title)}}}"] if self.title else []),
            *(["\\resizebox{\\linewidth}{!}{%"] if wide else []),
            f"\\begin{{tabular}}{{{alignment}}}",
            *("\\toprule", head, "\\midrule", *body, "\\bottomrule"),
            "\\end{tabular}" + ("}" if wide else ""),
            *(f"\\par\\smallskip{{\\footnotesize {_escape_latex(note)}}}" for note in notes),
            "\\end{table}",
        ]
        return "\n".join(lines) + "\n"


def table_of(
    rows: Sequence[Mapping[str, Any]],
    title: str = "",
    main: Sequence[str] = (),
    numbers: Collection[str] = (),
) -> Table:
    """Make a table of rows that are dictionaries of values by heading.

    A cell is empty if the row lacks the heading or has None for it. Columns with strings or paths
    are text and aligned to the left, except those in ``numbers``. ``main`` becomes
    `Table.main_columns`.
    """
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    filled = [[row.get(name) for name in columns] for row in rows]
    text = {
        name
        for k, name in enumerate(columns)
        if name not in numbers and any(isinstance(row[k], str | Path) for row in filled)
    }
    cells = tuple(tuple("" if cell is None else str(cell) for cell in row) for row in filled)
    return Table(title, columns, cells, frozenset(text), tuple(main))


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
    # `translate` replaces in one pass, so the braces that it inserts are not escaped again.
    # "-{}-" keeps LaTeX from turning two hyphens into a dash.
    return " ".join(cell.translate(_LATEX).replace("--", "-{}-").split())


def _escape(cell: str) -> str:
    return " ".join(cell.replace("\\", "\\\\").replace("|", "\\|").split())
