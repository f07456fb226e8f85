"""LaTeX is escaped once, cell by cell; CSV holds no formulas."""

from __future__ import annotations

import csv
import io

import instances
import online
from instances import Instance
from instances.files import csv_text
from online.commands.ratio_report import Report
from online.tables import Table, table_of


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


def test_a_table_without_a_title_has_no_caption_and_notes_stand_below() -> None:
    made = Table("", ("a",), (("1",),)).to_latex(["95 %, --all"])
    assert "caption" not in made
    assert made.endswith(
        "\\end{tabular}\n\\par\\smallskip{\\footnotesize 95 \\%, -{}-all}\n\\end{table}\n"
    )


def test_rows_of_values_become_cells() -> None:
    rows = [{"name": "a", "n": 1, "share": "5 %"}, {"name": "b", "share": "12 %", "more": None}]
    table = table_of(rows, "title", main=("n",), numbers=("share",))
    columns, text = ("name", "n", "share", "more"), frozenset({"name"})
    cells = (("a", "1", "5 %", ""), ("b", "", "12 %", ""))
    assert table == Table("title", columns, cells, text, ("n",))


def test_csv_holds_no_formulas() -> None:
    instance = Instance.from_arrays([1], [2], memory_limit=4, name="=1+1")
    text = Report(online.sweep([instance], ["mc-sf"]), []).text(".csv")
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["instance"] == "'=1+1"
    assert csv_text([("@a", "b"), ("-0.5", "-x")]) == "'@a,b\n-0.5,'-x\n"


def test_a_table_for_a_paper_says_of_what_it_is_and_names_no_option() -> None:
    """Headings are words with units; notes explain the columns there are."""
    group = [instances.generate("uniform", s, n=3) for s in range(2)]
    trials = online.sweep([*group, instances.library()["worst-n3-00"].instance], ["fcfs", "vllm"])
    made = Report(trials, ["--slo was given"])
    text = made.text(".tex")
    caption = "total latency / optimum or preemptive optimum, 3 instances of uniform, worst"
    assert f"\\caption{{{caption}}}" in text
    assert "policy & compared with & trials & failed & proved & mean ratio" in text
    assert "-{}-" not in text
    assert text.startswith("% --preemption keep divides all costs")
    notes = ("ratio: proved", "pairs of instance and seed", "llm-hindsight", "resume at no cost")
    assert all(note in text for note in notes)
    with_units = ("cost, rounds", "optimum, rounds", "preemptive optimum, rounds")
    assert made.parts()[0].columns == ("instance", "policy", *with_units, "ratio")
