"""Tables of docs/library.md: the sets, the bounds on their optima, and the ratios of policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import instances
from instances import RecordStore
from instances.files import write_atomically
from online.tables import Table
from studies.library.gaps import median_gap, open_gaps

from .scores import MOST_RELAXED, RELAXING, SEED, TOLD_INTERVALS, Score, read_scores
from .standings import beaten, leaderboard_tables, standings, without_ratio
from .summary import Known, instances_csv, sets_table, sizes_table, sources

SCORES = "leaderboard.csv"
"""File with the scores of policies, in a folder next to the page."""
INSTANCES, FIGURE = "instances.csv", "gaps"
"""Names of the files that `write_library_summary` writes to this folder."""

SETS = """## The sets

The library has {count} instances in {sets} sets. {closed} are closed: schedule and verified bound
meet. The median gap of the {open} open ones is {median}.{missing}

"Compared with" names the [optimum](model.md) that the record encloses. A gap is (schedule -
verified bound) / schedule; on `service`, whose records count late requests, it is (schedule -
verified bound) / requests. A bound is verified by its certificate or, where `show` names none,
computed anew from the instance by a closed form. Windows of traces stand under the licence of the
trace, which asks for the attribution given.
"""

GAPS = """## Gaps

Closed instances of all, by number of requests, and the median gap of the open ones:
"""

FIGURE_TEXT = """
![Gap over the number of requests, by set]({folder}/{figure}.png)

Every instance with its bounds, proof, method, date, version and digest:
[{instances}]({folder}/{instances}).
"""

LEADERBOARD = """## Every policy on the library

{policies} policies ran on every instance: all registered ones that need no service level, with
their default parameters, and those of serving engines a second time with the shortest output first
in their queue. Random choices have seed {seed}. A ratio is an interval, from the policy's figure
over the record's schedule to its figure over the verified bound. Where a policy is better than the
record, its own schedule takes that place. The ratio of a set runs from the mean of the lower ends
to the mean of the upper ends, rounded outwards. `(k of m)` marks a mean over k instances only: the
others have no ratio, for the reasons below, and such a mean compares with no other row. The column
"{over_sets}" counts each set once; rows are sorted by its lower end.

On `service` every policy is told the service level, and those that read deadlines run too. There
the figure is the share of the attainable: requests on time over the most that any scheduler has on
time, of which the record has bounds. The larger it is, the better.

Every policy is told output lengths exactly, also those made for less. On {told} policies run a
second time, told only an interval: the least and the largest output of the instance. Policies
that solve a linear relaxation for every plan ({relaxing}) run with up to {most} requests. Ratios
to different optima, or with different knowledge, stand in separate tables.
"""

READING = """Authors of a policy might choose other parameters than the defaults here. `wait` and
`nested-wait` have thresholds of 1, so one request enters a stage at a time. Engines process some
thousands of prompt tokens a round, while the optimum may process any number; on the prompts of
millions of tokens in `reduction` this costs them most. `vllm` learns one round late that a
request has ended.
"""

LEADERBOARD_END = """
[{scores}]({folder}/{scores}) has the figure of each policy on each instance. `python
scripts/library.py score` runs them again.
"""


def library_tables(known: Known, scores: Sequence[Score], folder: str = "library") -> str:
    """Return the tables of sets, gaps and policies as Markdown, for the end of a page.

    Parameters
    ----------
    known : Known
        The library and its records.
    scores : Sequence[Score]
        Scores of policies on instances.
    folder : str, default "library"
        Folder of figures and data, relative to the page.
    """
    parts = [
        _sets(known),
        sets_table(known).to_markdown(),
        "".join(f"- {line}\n" for line in sources(known.library)),
        GAPS,
        sizes_table(known).to_markdown(),
        FIGURE_TEXT.format(folder=folder, figure=FIGURE, instances=INSTANCES),
        *_leaderboard(known, scores, folder),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def measured_library_tables(folder: Path) -> str:
    """Return `library_tables` for the records of the library and the scores in ``folder``.

    Raises
    ------
    OSError, FileFormatError, InvalidValueError
        The file of scores cannot be read, or does not fit the records.
    """
    known = Known.of(instances.library(), RecordStore())
    return library_tables(known, read_scores(folder / SCORES, known.library), folder.name)


def write_library_summary(folder: Path) -> None:
    """Write the figure of gaps and the table of instances to ``folder``.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    from online.pictures import style

    from .gap_figure import gap_figure

    known = Known.of(instances.library(), RecordStore())
    figure = gap_figure(known)
    for suffix in (".png", ".svg"):
        style.save(figure, folder / f"{FIGURE}{suffix}")
    write_atomically(folder / INSTANCES, instances_csv(known))


def _sets(known: Known) -> str:
    records = [*known.records.values()]
    count = len(open_gaps(records))
    missing = len(known.library) - len(known.records)
    return SETS.format(
        count=len(known.library),
        sets=len(known.library.sets),
        closed=len(records) - count,
        open=count,
        median=median_gap(records, "none"),
        missing=f" {missing} have no record yet." if missing else "",
    )


def _leaderboard(known: Known, scores: Sequence[Score], folder: str) -> list[str]:
    standing = standings(scores, known.library, known.records.get)
    parts = [
        LEADERBOARD.format(
            policies=len(
                {one.policy for one in scores if known.library[one.instance].level is None}
            ),
            seed=SEED,
            over_sets="mean of these",
            told=", ".join(f"`{name}`" for name in TOLD_INTERVALS),
            relaxing=", ".join(f"`{name}`" for name in RELAXING),
            most=MOST_RELAXED,
        ),
        *(table.to_markdown() for table in leaderboard_tables(standing)),
    ]
    notes = [f"Better than its record: {line}." for line in beaten(scores, known.records.get)]
    parts.append(READING)
    if notes:
        parts.append("".join(f"- {note}\n" for note in notes))
    reasons = without_ratio(standing)
    if reasons.rows:
        parts += ["### Without a ratio\n", Table("", *_untitled(reasons)).to_markdown()]
    parts.append(LEADERBOARD_END.format(scores=SCORES, folder=folder))
    return parts


def _untitled(table: Table) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], frozenset[str]]:
    return table.columns, table.rows, table.text_columns
