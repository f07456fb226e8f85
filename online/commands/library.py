"""The library of instances: listed, shown, verified, improved, and added to."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

import instances
from hindsight.outcomes.result import percent
from instances import InvalidValueError, LibraryEntry, Record, RecordStore
from instances.validation import as_number
from online.records.gaps import median_gap, open_gaps
from online.runtime.table import Table, table_of

from .console import (
    FAILED_STATUS,
    INTERRUPTED_STATUS,
    Wide,
    complain,
    fail,
    progress_bar,
    reject,
)
from .json_output import JsonFile, answer, check_json
from .options import OwnRecords, record_store
from .sources import GOALS, Source

if TYPE_CHECKING:
    from hindsight.records.improvement import Gain
    from hindsight.records.verification import RecordVerdict
    from online.records.working import Failure

DEFAULT_SECONDS = 60.0
CERTIFICATES = "instances/catalogue/certificates"


class Action(StrEnum):
    """Actions on the library."""

    LIST = "list"
    SHOW = "show"
    VERIFY = "verify"
    IMPROVE = "improve"


class Show(Protocol):
    """Tell what an action found: as JSON, or on the screen."""

    def __call__(self, found: Mapping[str, Any], *parts: Table | Mapping[str, str] | str) -> None:
        """See `json_output.answer`."""


def library(
    action: Annotated[Action, typer.Argument(help="What is done: list, show, verify or improve.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES]...",
            help="Instances, sets, or patterns such as 'j25-*-n2*'; default: all, of show none.",
        ),
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(min=1, help="Only instances of at most so many requests."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0, help=f"improve: seconds for everything; default: {DEFAULT_SECONDS:g}."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="verify, improve: processes; default: 1.")
    ] = None,
    records: OwnRecords = None,
    wide: Wide = False,
    json_file: JsonFile = None,
) -> int:
    """Named instances with their best known schedules and bounds, each bound with its proof.

    list tells what there is, show what is known of an instance. verify checks schedules and
    certificates, and loads no solver for it: exit status 1 if something does not hold. improve
    spends a given time on the widest gaps, from where they are, and keeps what it finds at once:
    exit status 1 if attempts failed, or if records cannot be read, whose instances are left out.
    list, show, improve and leaderboard take records as they are: verify those that came from
    elsewhere (--records). leaderboard, which has options of its own, puts every policy beside these
    records.
    """
    check_json(json_file)
    for option, value, takers in (
        ("--time-limit", time_limit, {Action.IMPROVE}),
        ("--jobs", jobs, {Action.VERIFY, Action.IMPROVE}),
    ):
        if value is not None and action not in takers:
            raise InvalidValueError(None, option, value, f"means nothing to {action}")
    show: Show = partial(answer, json_file, "library", wide=wide)
    if action is Action.IMPROVE:
        store = RecordStore(records)
        store.require_writable()
    else:
        store = record_store(records)
    if action is Action.SHOW and not names:
        fail("show needs a name, a set or a pattern: list tells what there is")
    chosen = [
        entry
        for entry in instances.library().matching(*names or ())
        if largest is None or entry.n <= largest
    ]
    if not chosen:
        raise InvalidValueError(None, "--largest", largest, "leaves no instance: all are larger")
    if action is Action.VERIFY:
        return _verify(chosen, records, jobs or 1, show)
    if action is Action.IMPROVE:
        seconds = DEFAULT_SECONDS if time_limit is None else time_limit
        seconds = as_number(seconds, None, "--time-limit", above=0)
        return _improve(chosen, store, seconds, jobs or 1, show)
    known = {entry.name: store.record(entry) for entry in chosen}
    found = {"instances": [_about(entry, known[entry.name]) for entry in chosen]}
    sets = {one.name: one for one in instances.library().sets}
    if action is Action.SHOW:
        shown = [_fields(entry, sets[entry.set], known[entry.name]) for entry in chosen]
        show(found, *[part for fields in shown for part in ("", fields)][1:])
    else:
        show(found, _entry_table(chosen, known) if names else _set_table(chosen, known))
    return 0


def _set_table(entries: Sequence[LibraryEntry], known: Mapping[str, Record | None]) -> Table:
    rows = []
    for one in instances.library().sets:
        own = [entry for entry in entries if entry.set == one.name]
        if not own:
            continue
        found = [record for entry in own if (record := known[entry.name]) is not None]
        is_open = len(open_gaps(found))
        sizes = [entry.n for entry in own]
        row = {
            "set": one.name,
            "instances": str(len(own)),
            "n": "..".join(map(str, sorted({min(sizes), max(sizes)}))),
            "closed": str(len(found) - is_open),
            "open": str(is_open),
            "no record": str(len(own) - len(found)),
            "median gap": median_gap(found, ""),
            "what": one.title,
        }
        rows.append(row)
    main = ("set", "instances", "closed", "open", "median gap", "what", "n", "no record")
    return table_of("", rows, text=("set", "what"), main=main, prose=("what",))


def _entry_table(entries: Sequence[LibraryEntry], known: Mapping[str, Record | None]) -> Table:
    rows = []
    for entry in entries:
        record = known[entry.name]
        row = {
            "instance": entry.name,
            "n": str(entry.n),
            "goal": GOALS[entry.goal],
            "optimum": record.interval if record else "",
            "gap": percent(record.gap) if record else "",
            "status": record.status if record else "no record",
            "proof": record.proof if record else "",
            "date": record.date if record else "",
        }
        rows.append(row)
    text = ("instance", "goal", "status", "proof", "date")
    main = ("instance", "optimum", "gap", "status", "n", "goal")
    return table_of("", rows, text=text, main=main, prose=("goal", "status"))


def _fields(entry: LibraryEntry, of: instances.LibrarySet, record: Record | None) -> dict[str, str]:
    problem = entry.instance
    note = instances.rounding_note(problem.metadata)
    fields = {
        "instance": entry.name,
        "set": f"{of.name}: {of.title}",
        "source": entry.source,
        "licence": entry.licence,
        "requests": str(entry.n),
        "memory limit": str(problem.memory_limit),
        **({"memory rule": problem.memory_rule.told} if problem.memory_rule.told else {}),
        **({"batch time": entry.batch_time} if entry.batch_time else {}),
        "digest": entry.digest,
        "made": "from rows" if entry.is_stored else "by its recipe",
        **({"recipe": _recipe(entry)} if entry.recipe else {}),
        **({"note": note} if note else {}),
        "goal": GOALS[entry.goal],
        **({"service level": entry.told_level} if entry.level else {}),
    }
    if record is None:
        return fields | {"record": "none"}
    how = "certificate" if record.certified else "closed form, no certificate"
    fields |= {
        "optimum": record.interval,
        "status": record.status,
        "gap": percent(record.gap),
        "upper bound": str(record.upper_bound),
        "verified lower bound": f"{record.lower_bound}, {how}: {record.proof}",
        "found": f"{record.method}, {record.date}, {record.version}",
    }
    if record.certificate is not None:
        missing = f"not installed; the repository has {CERTIFICATES}/{record.certificate.name}"
        fields["certificate"] = str(_readable(record) or missing)
    return fields


def _readable(record: Record) -> Path | None:
    """Return the path of the certificate, or None where it is not installed."""
    path = record.certificate
    return path if path is not None and path.exists() else None


def _recipe(entry: LibraryEntry) -> str:
    """The source that draws the instance again."""
    recipe = entry.recipe or {}
    settings = {**recipe["parameters"], "seed": recipe["seed"]}
    given = {key: str(value) for key, value in settings.items()}
    return str(Source("generator", recipe["generator"], given))


def _about(entry: LibraryEntry, record: Record | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "instance": entry.name,
        "set": entry.set,
        "source": entry.source,
        "licence": entry.licence,
        "requests": entry.n,
        "goal": entry.goal,
        "batch_time": entry.batch_time,
        "level": None if entry.level is None else asdict(entry.level),
        "digest": entry.digest,
        "recipe": None if entry.recipe is None else dict(entry.recipe),
        "status": None,
    }
    if record is None:
        return found
    return found | {
        "status": record.status,
        "optimum": [record.lower_bound, record.upper_bound],
        "gap": record.gap,
        "proof": record.proof,
        "certificate": _readable(record),
        "date": record.date,
        "method": record.method,
        "version": record.version,
    }


def _verify(entries: Sequence[LibraryEntry], folder: Path | None, jobs: int, show: Show) -> int:
    from online.records.working import verify_records

    began = time.monotonic()
    verdicts: list[RecordVerdict] = []
    with progress_bar(len(entries), is_long=True) as update:
        for verdict in verify_records(entries, folder, jobs):
            verdicts.append(verdict)
            update(len(verdicts), verdict.name)
    seconds = time.monotonic() - began
    store = RecordStore(folder)
    refused = [f"{one.name}: {one.reason}" for one in verdicts if one.kind == "refused"]
    for name in dict.fromkeys(entry.set for entry in entries):
        # Each instance of a file that cannot be read is refused for that already.
        with suppress(instances.FileFormatError):
            strangers = store.unknown(name, frozenset(one.name for one in instances.library()))
            refused += [f"{one}: no instance of the library has this name" for one in strangers]
    found = {"verdicts": verdicts, "refused": refused, "runtime_seconds": seconds}
    count = sum(verdict.kind != "none" for verdict in verdicts)
    line = f"{_count(count, 'record')} checked in {seconds:.1f} s, {len(refused)} refused"
    show(found, _verdict_table(entries, verdicts), line)
    for line in refused:
        reject(line)
    return FAILED_STATUS if refused else 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _verdict_table(entries: Sequence[LibraryEntry], verdicts: Sequence[RecordVerdict]) -> Table:
    """A row for each set, and their sums."""
    own: dict[str, list[RecordVerdict]] = {}
    for entry, verdict in zip(entries, verdicts, strict=True):
        own.setdefault(entry.set, []).append(verdict)
    rows = []
    for name, some in {**own, "all": verdicts}.items():
        kinds = Counter(verdict.kind for verdict in some)
        holding = [verdict for verdict in some if verdict.kind in ("closed", "open")]
        row = {
            "set": name,
            "instances": len(some),
            "closed": kinds["closed"],
            "open": kinds["open"],
            "no certificate": sum(not verdict.has_certificate for verdict in holding),
            "no record": kinds["none"],
            "refused": kinds["refused"],
        }
        rows.append({column: str(cell) for column, cell in row.items()})
    return table_of("", rows, text=("set",))


def _improve(
    entries: Sequence[LibraryEntry], store: RecordStore, seconds: float, jobs: int, show: Show
) -> int:
    from online.records.working import Failure, improve_records

    began = time.monotonic()
    with progress_bar(math.ceil(seconds)) as update:

        def tell(news: Gain | Failure) -> None:
            name = news.name if isinstance(news, Failure) else news.entry.name
            update(min(seconds, time.monotonic() - began), name)

        done = improve_records(entries, store, seconds, jobs=jobs, tell=tell)
    gains = [news for news in done.attempts if not isinstance(news, Failure)]
    better = [gain for gain in gains if gain.improves]
    lost = [news for news in done.attempts if isinstance(news, Failure)]
    closed = sum(
        gain.after.status == "closed" and (gain.before is None or gain.before.status == "open")
        for gain in gains
    )
    # A damaged file is one line, however many instances it has records of.
    left_out = Counter(one.reason for one in done.left_out)
    refused = [f"{why}; {_count(many, 'instance')} left out" for why, many in left_out.items()]
    found = {
        "attempts": len(done.attempts),
        "closed": closed,
        "interrupted": done.interrupted,
        "improved": [_gained(gain) for gain in better],
        "failed": [{"instance": one.name, "reason": one.reason} for one in lost],
        "refused": refused,
    }
    line = (
        f"{_count(len(done.attempts), 'attempt')} in {time.monotonic() - began:.0f} s: "
        f"{len(better)} improved, {closed} closed, {len(lost)} failed"
    )
    show(found, *([_gain_table(better)] if better else []), line)
    for failure in lost:
        complain(f"{failure.name}: {failure.reason}")
    for line in refused:
        reject(line)
    if done.interrupted:
        return INTERRUPTED_STATUS
    return FAILED_STATUS if refused or lost else 0


def _gain_table(gains: Sequence[Gain]) -> Table:
    rows = [
        {
            "instance": gain.entry.name,
            "before": "none" if gain.before is None else gain.before.interval,
            "now": gain.after.interval,
            "gap before": "" if gain.before is None else percent(gain.before.gap),
            "gap now": percent(gain.after.gap),
            "proof": gain.after.proof,
        }
        for gain in gains
    ]
    main = ("instance", "now", "gap now", "before", "gap before", "proof")
    return table_of("", rows, text=("instance", "proof"), main=main)


def _gained(gain: Gain) -> dict[str, Any]:
    before = gain.before
    known = None if before is None else [before.lower_bound, before.upper_bound]
    return {"before": known, **_about(gain.entry, gain.after)}
