"""docs/reproduction.md: a row for every table and figure of the papers, made from verdict files."""

from __future__ import annotations

from collections.abc import Sequence

from online.runtime.table import Table

from .declaration import VERDICTS
from .paper_items import ITEMS, PAPERS, Item
from .record import Recorded

COLUMNS = ("item", "shows", "the paper says", "measured", "verdict")

OPENING = """# Reproductions

Every table and figure of the four papers, measured again. The page is made by
`python scripts/reproduce.py --out docs/reproduction --page docs/reproduction.md` from the verdict
files in [reproduction](reproduction); beside each lie its data (CSV) and its figure (PNG, SVG). A
figure that does not reproduce is reported as it came out; nothing is tuned towards a paper.

A claim is taken apart into statements that numbers can bear out. It is reproduced where all of
them hold, in part where some do, not reproduced otherwise; where a verdict follows another rule, it
says so. Where agreement is by construction, it is in part at best.

The commands below run the full size, `--quick` a size that takes seconds, and write into
`results/reproduction`. Conversations are synthetic where a paper took them from LMSYS-Chat-1M,
which may not be passed on: lengths are drawn from laws with the published means and medians.
`--traces FOLDER` names a folder with the public file `arxiv_summarization_lengths.csv` (Vidur's
processed trace); the measurements that name that trace were run with it. Without it, lengths of
its published moments are drawn instead, and the verdict says so.
"""


def reproduction_page(recorded: Sequence[Recorded], folder: str = "reproduction") -> str:
    """The page as Markdown.

    Parameters
    ----------
    recorded : Sequence[Recorded]
        Verdicts, in any order; an item without one is shown as not run.
    folder : str, default "reproduction"
        Of figures and data, relative to the page.
    """
    parts = [OPENING, _summary(recorded)]
    for paper, title in PAPERS.items():
        rows: list[tuple[str, ...]] = []
        sections: list[str] = []
        for item in ITEMS:
            if item.paper != paper:
                continue
            label = (item.paper, item.label)
            found = [each for each in recorded if (each.paper, each.item) == label]
            rows.extend(_rows(item, found))
            sections.extend(_section(item, each, folder) for each in found)
        table = Table("", COLUMNS, tuple(rows), frozenset(COLUMNS))
        parts.append(f"## [{paper}] {title}\n\n{table.to_markdown()}")
        parts.extend(sections)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _summary(recorded: Sequence[Recorded]) -> str:
    counts = {verdict: sum(each.verdict == verdict for each in recorded) for verdict in VERDICTS}
    listed = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
    quick = sum(each.size == "quick" for each in recorded)
    note = f" {quick} of them were run in the quick size only." if quick else ""
    return f"{len(recorded)} measurements: {listed or 'none yet'}.{note}\n"


def _rows(item: Item, found: Sequence[Recorded]) -> list[tuple[str, ...]]:
    if not found:
        return [(item.label, item.shows, "", "", item.not_measured or "not run")]
    return [
        (
            f"[{item.label}](#{each.name})",
            item.shows,
            each.claim.rstrip("."),
            each.measured.rstrip("."),
            each.verdict,
        )
        for each in found
    ]


def _section(item: Item, each: Recorded, folder: str) -> str:
    base = f"{folder}/{each.name}"
    quick = " --quick" if each.size == "quick" else ""
    why = f"{each.why[0].upper()}{each.why[1:].rstrip('.')}."
    return f"""### {each.name}

**[{each.paper}] {item.label}: {each.verdict}.** {why}

![{item.shows}]({base}.png)

`python scripts/reproduce.py {each.name}{quick}` ([data]({base}.csv), [SVG]({base}.svg))
"""
