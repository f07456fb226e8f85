"""docs/library.md: what the library is, what is known of it, and how every policy does on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import instances
from hindsight.outcomes.results import percent
from instances import Library, RecordStore
from instances.files import all_or_nothing, write_atomically
from online.leaderboard import (
    Score,
    beaten,
    equal_policies,
    leaderboard_tables,
    read_scores,
    standings,
    without_ratio,
)
from online.leaderboard.trials import MOST_RELAXED, RELAXING, SEED, TOLD_INTERVALS
from online.records.gaps import median_gap, open_gaps
from online.runtime.table import Table

from .summary import (
    COLUMN,
    Known,
    instances_csv,
    sets_table,
    sizes_table,
    sources,
)
from .surprises import surprises
from .versions import FEWEST, MOST, VersionRow, check_against_records, read_rows, sample

SCORES, VERSIONS, INSTANCES, FIGURE = (
    *("leaderboard.csv", "versions.json", "instances.csv"),
    "gaps",
)
"""Files beside the page; the first two are measured, the others made with it."""

OPENING = """# The library of instances

{count} named instances in {sets} sets, each with the best schedule known and the best lower bound
that can be verified: PSPLIB and the libraries of routing do that for their fields, and here every
bound comes with a proof that anyone can check, without a solver. {closed} are closed: schedule and
verified bound meet. Of the {open} open ones the median gap is {median}.{missing}

The page is made by `python scripts/library_page.py` from the records, and from what the commands
below measured.

## Use it

```python
import instances

library = instances.library()
print(len(library), "instances in", len(library.sets), "sets")
entry = library["j25-m1-n50-03"]
print(entry.set, entry.n, entry.goal, entry.instance.memory_limit)
```

```text
{count} instances in {sets} sets
{example}
```

`entry.instance` is made when it is asked for, from the recipe or the rows that the package
carries, and held against `entry.digest`: everybody computes with the same requests.
`library.matching("j25-m1", "azure-*")` has those of sets and patterns; in an
[experiment](experiments.md) they are named as `library = ["j25-m1", "azure-*"]`. What is known of
one is its record, or None:

```python
record = library["j25-m2-n10-01"].record
print(record.status, record.lower_bound, record.upper_bound, record.schedule.total_latency)
```

```text
closed 783 783 783
```

`entry.goal` says what the record is of, and with what `hindsight.solve(entry.instance, ...)` asks
for the same:

| goal | unit | `hindsight.solve` with |
| :--- | :--- | :--- |
| `total_latency` | rounds | nothing more |
| `makespan` | rounds | `objective="makespan"` |
| `preemptive_total_latency` | rounds | `preemptive=True` |
| `seconds` | seconds | `batch_time=preset(entry.batch_time).batch_time` |

`preset` is of `instances.batch_time`, and what has a goal in seconds is a workload.

- *To compare a policy of yours*: `llm-hindsight library leaderboard --policy my_rules.py:Mine
  --policy mc-sf` runs both on all of it, or on the sets that are named
  ([how a policy is written](own-policies.md)).
- *To list and to show*: `llm-hindsight library list`, `llm-hindsight library show j25-m1-n50-03`.
- *To verify*: `llm-hindsight library verify` checks every schedule, certificate and bound, with no
  solver. `list`, `show`, `improve` and `leaderboard` take records as they are: verify those that
  came from elsewhere (`--records DIR`).
- *To improve*: `llm-hindsight library improve` spends a given time on the widest gaps, and goes on
  where it stopped: from the schedules known, and from the prices in the certificates of bounds.
  Instances whose file of records is damaged are left out, and it ends with exit status 1.
- *To solve by another solver*: `llm-hindsight solve j25-m1-n50-03 --export model.mps` writes the
  integer program of it; `solve`, `relax` and `ratios` take such names wherever there is no file
  of the name.
- *To submit*: `llm-hindsight library submit FILE` takes a schedule
  (`instances.save_schedule(schedule, FILE)`, or what `llm-hindsight solve NAME --out FILE` wrote),
  a certificate (what `llm-hindsight solve NAME --certificate FILE` wrote), or, with
  `--instance j25-m1-n50-03`, the
  [solution file](exporting.md#a-schedule-found-elsewhere) of another solver, checks it, and says
  what it improves. What has improved is a changed file in `instances/catalogue/records`, and
  with a bound its certificate in `instances/catalogue/certificates`; `--records DIR` has both in a
  folder of yours instead. Send those. A better schedule needs no proof of its own; a better bound
  comes with its certificate ([the format](certificates.md)), and the bound that another solver
  gives is not taken.
- *To cite*: name the library of llm-hindsight (CITATION.cff), its version, and the source of what
  is used (below; `entry.source` and `entry.licence` have it for each instance); give names of
  instances, not only of sets. A name once published keeps its instance: what changes gets a new
  name.

## The sets

"Compared with" names what a record is of ([the optima](optima.md)). A gap is (schedule - verified
bound) / schedule. A bound is verified by its certificate or, where `show` names none, computed anew
from the instance by a closed form. *Claimed* is what a solve proved in exact arithmetic beyond the
verified bound: it closes nothing and is in no gap. Windows of traces stand under the licence of
the trace, which asks for the attribution given.
"""

GAPS = """## Gaps

Closed of all, by number of requests, and the median gap of those that are open:
"""

FIGURE_TEXT = """
![Gap over the number of requests, by set]({folder}/{figure}.png)

Every instance with its bounds, proof, method, date, version and digest:
[{instances}]({folder}/{instances}).
"""

LEADERBOARD = """## Every policy on the library

{policies} policies, all that are registered, with their default parameters, and those of serving
engines a second time with their queue shortest output first, on every instance; random choices
have seed {seed}. A ratio is an interval: the policy's figure over the record's schedule, up to
the figure over its verified bound; where a policy is better than the record, its own schedule
takes that place. A set's is the mean of the ratios, as the interval from the mean of the lower
to the mean of the upper ends, rounded outwards. `(k of m)` is a mean over k instances: the
others have no ratio, for the reason below, and such means compare with no other row.
"{over_sets}" counts each column once; by its lower end the rows are sorted.

Policies are told output lengths exactly, also those made for less. Where lengths are told as an
interval ({told}) it is the least and the largest output of the instance. Policies that solve a
linear relaxation for every plan ({relaxing}) are run with up to {most} requests. Ratios to
different optima, or with different knowledge, stand in tables of their own.
"""

READING = """Defaults are not what each policy's authors would choose here: `wait` and `nested-wait`
have thresholds of 1, so that one request enters a stage at a time; engines process some thousands
of prompt tokens a round, where the optimum may process any number, which tells on the prompts of
millions that `reduction` makes of numbers; `vllm` learns that a request has ended a round late.
"""

LEADERBOARD_END = """
What each policy came to on each instance: [{scores}]({folder}/{scores}). The tables again, from
the stored trials as far as the code is the same (`--statistic max` has the largest ratio of each
set instead of the mean):

<!-- not run: takes minutes -->

```console
$ llm-hindsight library leaderboard --scores docs/library/leaderboard.csv
$ python scripts/library_page.py
```
"""

VERSIONS_TEXT = """## What each version proves

Mean gap, certified, of {count} instances after as many seconds each as the row says, by set, in
a row for each version; the sample is the first instance of each family and size from {fewest} to
{most} requests. Rows compare where machine and seconds are the same and nothing else runs.
Another version is measured by `--sources`, its checkout, and `--python`, an interpreter with
what it requires.

<!-- not run: takes minutes -->

```console
$ python scripts/library_versions.py
```
"""


def library_page(
    known: Known, scores: Sequence[Score], rows: Sequence[VersionRow], folder: str = "library"
) -> str:
    """The page as Markdown.

    Parameters
    ----------
    known : Known
        The library and its records.
    scores : Sequence[Score]
        What policies came to.
    rows : Sequence[VersionRow]
        What versions prove.
    folder : str, default "library"
        Of figures and data, relative to the page.
    """
    parts = [
        _opening(known),
        sets_table(known).to_markdown(),
        "".join(f"- {line}\n" for line in sources(known.library)),
        GAPS,
        sizes_table(known).to_markdown(),
        FIGURE_TEXT.format(folder=folder, figure=FIGURE, instances=INSTANCES),
        *_leaderboard(known, scores, folder),
        *_versions(known.library, rows),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def write_library_page(page: Path, folder: Path) -> None:
    """The page, the table of instances and the figure, from what was measured in ``folder``.

    Raises
    ------
    OSError, FileFormatError, InvalidValueError
        What was measured cannot be read, or does not go with the records.
    """
    from online.pictures import style

    from .gap_figure import gap_figure

    store = RecordStore()
    known = Known.of(instances.library(), store)
    rows = read_rows(folder / VERSIONS)
    for row in rows:
        check_against_records(row, known.library, store)
    scores = read_scores(folder / SCORES, known.library)
    text = library_page(known, scores, rows, folder.relative_to(page.parent).as_posix())
    figure = gap_figure(known)
    with all_or_nothing():
        for suffix in (".png", ".svg"):
            style.save(figure, folder / f"{FIGURE}{suffix}")
        write_atomically(folder / INSTANCES, instances_csv(known))
        write_atomically(page, text)


def _opening(known: Known) -> str:
    records = [*known.records.values()]
    count = len(open_gaps(records))
    missing = len(known.library) - len(known.records)
    entry = known.library["j25-m1-n50-03"]
    return OPENING.format(
        count=len(known.library),
        sets=len(known.library.sets),
        closed=len(records) - count,
        open=count,
        median=median_gap(records, "none"),
        missing=f" {missing} have no record yet." if missing else "",
        example=f"{entry.set} {entry.n} {entry.goal} {entry.instance.memory_limit}",
    )


def _leaderboard(known: Known, scores: Sequence[Score], folder: str) -> list[str]:
    standing = standings(scores, known.library, known.records.get)
    parts = [
        LEADERBOARD.format(
            policies=len({score.policy for score in scores}),
            seed=SEED,
            over_sets="mean of these",
            told=", ".join(f"`{name}`" for name in TOLD_INTERVALS),
            relaxing=", ".join(f"`{name}`" for name in RELAXING),
            most=MOST_RELAXED,
        ),
        *(table.to_markdown() for table in leaderboard_tables(standing)),
    ]
    notes = [
        *(
            f"{', '.join(f'`{policy}`' for policy in group)} come to the same on every instance, "
            "told lengths exactly."
            for group in equal_policies(scores)
        ),
        *(
            f"Better than its record, and worth a submission: {line}."
            for line in beaten(scores, known.records.get)
        ),
    ]
    parts.append(READING)
    if notes:
        parts.append("".join(f"- {note}\n" for note in notes))
    parts += surprises(standing)
    reasons = without_ratio(standing)
    if reasons.rows:
        parts += ["### Without a ratio\n", Table("", *_untitled(reasons)).to_markdown()]
    parts.append(LEADERBOARD_END.format(scores=SCORES, folder=folder))
    return parts


def _untitled(table: Table) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], frozenset[str]]:
    return table.columns, table.rows, table.text_columns


def _versions(library: Library, rows: Sequence[VersionRow]) -> list[str]:
    if not rows:
        return []
    entries = sample(library)
    told = VERSIONS_TEXT.format(count=len(entries), fewest=FEWEST, most=MOST)
    sets = list(dict.fromkeys(entry.set for entry in entries))
    columns = (
        "version",
        *(f"`{name}`" for name in sets),
        "all",
        "closed",
        "s each",
        "date",
        "machine",
    )
    cells = []
    for row in rows:
        gaps = [
            row.gaps([entry.name for entry in entries if name in (entry.set, "")])
            for name in (*sets, "")
        ]
        means = (percent(sum(own) / len(own), COLUMN) for own in gaps)
        whole = row.gaps([entry.name for entry in entries])
        measured = (f"{row.seconds:g}", row.date, row.machine)
        cells.append((row.label, *means, str(whole.count(0.0)), *measured))
    texts = frozenset({"version", "date", "machine"})
    return [told, Table("", columns, tuple(cells), texts).to_markdown()]
