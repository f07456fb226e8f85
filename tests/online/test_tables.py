"""LaTeX is escaped once, cell by cell."""

from __future__ import annotations

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


def test_a_table_without_a_title_has_no_caption() -> None:
    assert "caption" not in Table("", ("a",), (("1",),)).to_latex()
