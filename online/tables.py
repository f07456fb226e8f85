"""A table, and how it is written: Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LATEX_LETTERS = 75
"""Of a line of a page."""


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
        Headings of the columns that a narrow terminal shows, the most important first. Other
        headings may be named too. Empty: all columns, the most important on the left.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[str] = frozenset()
    main_columns: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """Write a pipe table below its title."""
        rule = [":---" if name in self.text_columns else "---:" for name in self.columns]
        body = [self.columns, tuple(rule), *self.rows]
        lines = [f"**{_escape(self.title)}**", ""] if self.title else []
        for number, cells in enumerate(body):
            shown = cells if number == 1 else [_escape(cell) for cell in cells]
            lines.append("| " + " | ".join(shown) + " |")
        return "\n".join(lines) + "\n"

    def to_latex(self, notes: Iterable[str] = ()) -> str:
        """Write a ``table`` with the rules of booktabs, its title as the caption, notes below it.

        One too wide for a page is shrunk to the width of the text, for which it needs graphicx.
        """
        columns = zip(self.columns, *self.rows, strict=True)
        wide = sum(max(map(len, column)) for column in columns) > LATEX_LETTERS
        alignment = "".join("l" if name in self.text_columns else "r" for name in self.columns)
        escaped = [[_escape_latex(cell) for cell in row] for row in (self.columns, *self.rows)]
        for row in escaped:
            # A row that begins so would pass for an argument of the line break before.
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
    """Make a table of rows of values by heading; a heading that a row lacks is an empty cell.

    Columns of strings are aligned to the left, except those named as ``numbers``. ``main`` are the
    `main_columns`.
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
    # One pass over the text, so that the braces of a replacement are not escaped again.
    # LaTeX would make a dash of two hyphens.
    return " ".join(cell.translate(_LATEX).replace("--", "-{}-").split())


def _escape(cell: str) -> str:
    return " ".join(cell.replace("\\", "\\\\").replace("|", "\\|").split())
