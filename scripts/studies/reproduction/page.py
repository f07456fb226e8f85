"""Tables of docs/reproduction.md: a row for every table and figure of the papers, from records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from online.tables import Table

from .declaration import Cause, reproduction, reproduction_names
from .paper_items import ITEMS, PAPERS, Item
from .record import Recorded
from .verdicts import Verdict, tally

COLUMNS = ("item", "shows", "the paper says", "measured", "verdict")

WORST_FIRST: tuple[Verdict, ...] = ("not reproduced", "in part", "reproduced", "by construction")
"""The order of columns at a glance: refuted claims first."""


def reproduction_tables(
    recorded: Sequence[Recorded],
    folder: str = "reproduction",
    experiments: Sequence[Recorded] = (),
) -> str:
    """Verdicts, figures and causes as Markdown, to stand below the head of a page.

    Parameters
    ----------
    recorded : Sequence[Recorded]
        Records, in any order; an item without one is shown as not run.
    folder : str, default "reproduction"
        Folder of figures and data, relative to the page.
    experiments : Sequence[Recorded], default ()
        Measurements with one thing varied.
    """
    parts = [_at_a_glance(recorded), _refuted(recorded), _by_batch_time(recorded, experiments)]
    for paper, title in PAPERS.items():
        rows: list[tuple[str, ...]] = []
        sections: list[str] = []
        for item, found in _by_item(recorded, paper):
            rows.extend(_rows(item, found))
            for each in found:
                varied = [one for one in experiments if one.name == each.name]
                sections.append(_section(item, each, folder, varied))
        parts.append(f"## [{paper}] {title}\n\n{_table(COLUMNS, rows)}")
        parts.extend(sections)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return Table("", tuple(columns), tuple(map(tuple, rows)), frozenset(columns)).to_markdown()


def _by_item(recorded: Sequence[Recorded], paper: str) -> list[tuple[Item, list[Recorded]]]:
    return [
        (item, [each for each in recorded if (each.paper, each.item) == (item.paper, item.label)])
        for item in ITEMS
        if item.paper == paper
    ]


def _at_a_glance(recorded: Sequence[Recorded]) -> str:
    def row(name: str, among: Sequence[Recorded]) -> tuple[str, ...]:
        numbers = [sum(each.verdict == verdict for each in among) for verdict in WORST_FIRST]
        return name, *(str(number) if number else "" for number in numbers), str(len(among))

    rows = [
        row(f"[{paper}]", [each for each in recorded if each.paper == paper]) for paper in PAPERS
    ]
    table = _table(("paper", *WORST_FIRST, "measured"), [*rows, row("all", recorded)])
    table = f"## Verdicts\n\n{table}"
    quick = sum(each.size == "quick" for each in recorded)
    note = f"\n{quick} of them were run in the quick size only.\n" if quick else ""
    return table + note


def _refuted(recorded: Sequence[Recorded]) -> str:
    rows = [
        (_link(each), each.claim.rstrip("."), each.share, _kinds(each))
        for paper in PAPERS
        for _, found in _by_item(recorded, paper)
        for each in found
        if each.verdict == "not reproduced"
    ]
    if not rows:
        return ""
    table = _table(("item", "the paper says", "holds", "cause"), rows)
    return f"""## Not reproduced

Causes that experiments do not tell apart are named together; each section says what was tried.

{table}"""


def _cause(name: str) -> Cause | None:
    return reproduction(name).cause if name in reproduction_names() else None


def _kinds(each: Recorded) -> str:
    cause = _cause(each.name)
    return ", ".join(cause.kinds) if cause is not None else ""


def _by_batch_time(recorded: Sequence[Recorded], experiments: Sequence[Recorded]) -> str:
    """Verdicts of what is measured in seconds, beside those with other batch times."""
    sizes = {each.name: each.size for each in recorded}
    found = {
        (one.name, one.varied): one
        for one in experiments
        if one.varied.startswith("batch-time=") and sizes.get(one.name) == one.size
    }
    times = sorted({varied for _, varied in found})
    rows = []
    for paper in PAPERS:
        for _, measured in _by_item(recorded, paper):
            for each in measured:
                others = [found.get((each.name, varied)) for varied in times]
                if any(others):
                    rows.append(_beside(each, others, times))
    if not rows:
        return ""
    names = [f"`{varied.partition('=')[2]}`" for varied in times]
    columns = ("item", "as measured", *names, "borne out best by", "what remains")
    return f"""## By batch time

Measurements in seconds, with their own batch time and with exactly that changed; what remains are
the statements that fail with the best of them too.

{_table(columns, rows)}"""


def _beside(
    each: Recorded, others: Sequence[Recorded | None], times: Sequence[str]
) -> tuple[str, ...]:
    runs = {"its own": each, **dict(zip(times, others, strict=True))}
    shares = {name: tally(one.statements) for name, one in runs.items() if one is not None}
    held = {name: Fraction(held, counted or 1) for name, (held, counted) in shares.items()}
    best = [name for name, one in held.items() if one == max(held.values())]
    cells = ["" if one is None else f"{one.verdict} ({one.share})" for one in runs.values()]
    told = ", ".join(name.partition("=")[2] or name for name in best)
    chosen = runs[best[0]] or each
    fails = "; ".join(one.text for one in chosen.statements if not one.holds) or "nothing"
    return _link(each), *cells, "all alike" if len(best) == len(held) > 1 else told, fails


def _link(each: Recorded) -> str:
    panel = each.name.removeprefix(f"{each.paper}-{each.item}-".lower().replace(" ", "-"))
    label = f"[{each.paper}] {each.item}"
    shown = f"{label}, {panel.replace('-', ' ')}" if panel != each.name else label
    return f"[{shown}](#{each.name})"


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


def _section(item: Item, each: Recorded, folder: str, experiments: Sequence[Recorded]) -> str:
    base = f"{folder}/{each.name}"
    quick = " --quick" if each.size == "quick" else ""
    taken = "" if each.cpu_seconds is None else f", {each.cpu_seconds:,.0f} s of CPU"
    return f"""### {each.name}

**[{each.paper}] {item.label}: {each.verdict} ({each.share}).** {each.why}
{_told_apart(each, experiments)}
![{item.shows}]({base}.png)

`python scripts/reproduce.py {each.name}{quick}` ([data]({base}.csv), [SVG]({base}.svg)){taken}
"""


def _told_apart(each: Recorded, experiments: Sequence[Recorded]) -> str:
    comparable = [one for one in experiments if one.size == each.size]
    parts = []
    cause = _cause(each.name) if each.verdict == "not reproduced" else None
    if cause is not None:
        kinds = ", ".join(cause.kinds)
        told = cause.told({one.varied: one.share for one in comparable})
        parts.append(f"**Cause: {kinds}.** {told}")
    if comparable:
        rows = [
            (f"`{one.varied}`", f"{one.verdict} ({one.share})", one.measured.rstrip("."))
            for one in comparable
        ]
        parts.append(_table(("one thing changed", "verdict", "measured"), rows).rstrip("\n"))
    return "".join(f"\n{part}\n" for part in parts)
