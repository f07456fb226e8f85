"""Tables of docs/reproduction.md, made from records: every table and figure of the papers."""

from __future__ import annotations

from collections.abc import Sequence

from online.tables import Table

from .figure import Record, Verdict
from .paper_items import ITEMS, PAPERS

WORST_FIRST: tuple[Verdict, ...] = ("not reproduced", "in part", "reproduced", "by construction")


def reproduction_tables(
    records: Sequence[Record], folder: str = "reproduction", varied: Sequence[Record] = ()
) -> str:
    """Return, as Markdown, a table of verdicts on the papers' claims and a section per figure.

    Parameters
    ----------
    records : Sequence[Record]
        Records in any order; an item without one is shown as not run.
    folder : str, default "reproduction"
        Folder of pictures and data, relative to the page.
    varied : Sequence[Record], default ()
        Records with one condition changed.
    """
    counts = [
        [name, *(sum(one.verdict == verdict for one in own) for verdict in WORST_FIRST), len(own)]
        for name, own in (
            *((f"[{paper}]", [one for one in records if one.paper == paper]) for paper in PAPERS),
            ("all", records),
        )
    ]
    quick = sum(one.size == "quick" for one in records)
    note = f"\n{quick} of them were run in the quick size only.\n" if quick else ""
    parts = [f"## Verdicts\n\n{table(('paper', *WORST_FIRST, 'measured'), counts)}{note}"]
    for paper, title in PAPERS.items():
        rows, sections = [], []
        for item in (one for one in ITEMS if one.paper == paper):
            own = [one for one in records if (one.paper, one.item) == (paper, item.label)]
            if not own:
                rows.append([item.label, item.shows, "", item.not_measured or "not run"])
            for one in own:
                name = f"[{item.label}](#{one.name})"
                rows.append([name, item.shows, one.claim.rstrip("."), one.verdict])
                others = [
                    other for other in varied if (other.name, other.size) == (one.name, one.size)
                ]
                sections.append(section(item.shows, one, folder, others))
        columns = ("item", "shows", "the paper says", "verdict")
        parts.append(f"## [{paper}] {title}\n\n{table(columns, rows)}")
        parts += sections
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    cells = tuple(tuple(str(cell) for cell in row) for row in rows)
    return Table("", tuple(columns), cells, frozenset(columns)).to_markdown()


def section(shows: str, one: Record, folder: str, varied: Sequence[Record]) -> str:
    """Return the section of a record: statements, picture, and variations."""
    base, quick = f"{folder}/{one.name}", " --quick" if one.size == "quick" else ""
    files = "".join(f" Lengths: {text}." for text in one.lengths.values() if text != "synthetic")
    spent = "" if one.cpu_seconds is None else f", {one.cpu_seconds:,.0f} s of CPU"
    changed = ""
    if varied:
        rows = [(f"`{other.varied}`", f"{other.verdict} ({other.share})") for other in varied]
        changed = "\n" + table(("one condition changed", "verdict"), rows)
    return f"""### {one.name}

**[{one.paper}] {one.item}: {one.verdict} ({one.share}).** {one.findings}{files}
{changed}
![{shows}]({base}.png)

`python scripts/reproduce.py {one.name}{quick}` ([data]({base}.csv)){spent}
"""
