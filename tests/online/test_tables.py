"""LaTeX is escaped once, cell by cell; CSV holds no formulas."""

from __future__ import annotations

import csv
import io

import online
from instances import Instance
from online.commands.ratio_report import Report
from online.tables import Table


def test_latex() -> None:
    table = Table(
        "50% of {A & B}",
        ("policy_name", "ratio"),
        (("a\\b^2~x", "[1.0, ?]"), ("[b] #1 $", "1.5")),
        frozenset({"policy_name"}),
    )
    assert (
        table.to_latex()
        == r"""% needs \usepackage{booktabs}
\begin{table}
\centering
\caption{50\% of \{A \& B\}}
\begin{tabular}{lr}
\toprule
policy\_name & ratio \\
\midrule
a\textbackslash{}b\textasciicircum{}2\textasciitilde{}x & [1.0, ?] \\
{[b] \#1 \$} & 1.5 \\
\bottomrule
\end{tabular}
\end{table}
"""
    )


def test_a_table_wider_than_a_page_is_shrunk() -> None:
    """Seven columns of intervals do not fit; a row that begins with a star is no starred break."""
    columns = tuple(f"column {k}" for k in range(7))
    made = Table("", columns, (("*.json", *["[1.0000, 1.5000]"] * 6),)).to_latex()
    assert made.startswith("% needs \\usepackage{booktabs, graphicx}\n")
    assert "\\resizebox{\\linewidth}{!}{%\n\\begin{tabular}{rrrrrrr}\n" in made
    assert "{*.json} & [1.0000, 1.5000]" in made
    assert made.endswith("\\end{tabular}}\n\\end{table}\n")


def test_a_table_without_a_title_has_no_caption() -> None:
    assert "caption" not in Table("", ("a",), (("1",),)).to_latex()


def test_csv_holds_no_formulas() -> None:
    instance = Instance.from_arrays([1], [2], memory_limit=4, name="=1+1")
    text = Report(online.sweep([instance], ["mc-sf"]), [], None).text(".csv")
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["instance"] == "'=1+1"
    table = Table("", ("@a", "b"), (("-0.5", "-x"),))
    assert table.to_csv() == "'@a,b\n-0.5,'-x\n"
