"""Verify and improve the records of the library; score policies, and write the page's files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from _checkout import ROOT

from hindsight.outcomes.result import percent
from hindsight.records.improvement import Gain, attempt, keep
from hindsight.records.verification import verify_record
from hindsight.runtime.clock import Clock
from instances import FileFormatError, LibraryEntry, Record, RecordStore
from instances.catalogue.library import library
from instances.files import write_atomically
from online.commands.console import FAILED_STATUS, complain, run, say
from studies.library.page import SCORES, write_library_summary
from studies.library.scores import play, scores_csv

PAGE, TRIALS = ROOT / "docs" / "library", ROOT / "results" / "library.jsonl"
LEAST_SLICE = 5.0
"""Seconds below which an attempt does hardly more than begin."""

Found = tuple[Record, bytes | None]


class Action(StrEnum):
    """Actions on records."""

    VERIFY = "verify"
    IMPROVE = "improve"
    SCORE = "score"
    SUMMARY = "summary"


def main(
    action: Annotated[Action, typer.Argument(help="verify, improve, score or summary.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="Instances, sets or patterns; default: all.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Folder of records in place of the package's.")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=1, help="improve: seconds in total.")] = 60.0,
    jobs: Annotated[int, typer.Option(min=1, help="improve, score: processes.")] = 1,
) -> int:
    """Verify records, or spend a given time on the widest gaps.

    An improved record is written at once: after a kill the next run continues. Ctrl-C ends the
    running attempts and keeps what they found. Exit status 1 if something is refused or fails.
    score runs every policy on every instance, which takes hours, and writes the scores of
    docs/library; the next run continues. summary writes its figure and its table of instances.
    """
    if action is Action.SUMMARY:
        write_library_summary(PAGE)
        return 0
    if action is Action.SCORE:
        TRIALS.parent.mkdir(exist_ok=True)
        found = play(library(), TRIALS, jobs=jobs)
        write_atomically(PAGE / SCORES, scores_csv(found))
        return 0
    entries, store = library().matching(*names or ()), RecordStore(records)
    if action is Action.VERIFY:
        verdicts = [verify_record(entry, store) for entry in entries]
        refused = [one for one in verdicts if one.kind == "refused"]
        for one in refused:
            complain(f"{one.name}: {one.reason}", "rejected")
        say(f"{len(verdicts)} records checked, {len(refused)} refused")
        return FAILED_STATUS if refused else 0
    store.require_writable()
    failed = 0
    for news in improve(entries, store, time_limit, jobs):
        if isinstance(news, Gain):
            before = "no record" if news.before is None else news.before.interval
            say(f"{news.entry.name}: {before} -> {news.after.interval}, {percent(news.after.gap)}")
        else:
            failed += 1
            complain(news)
    return FAILED_STATUS if failed else 0


def improve(
    entries: Iterable[LibraryEntry], store: RecordStore, seconds: float, jobs: int = 1
) -> Iterator[Gain | str]:
    """Improve the records with the widest gaps; yield each gain, or the reason of a failure.

    Records tried least come first, of these the widest gap, of these the smallest instance. Each
    gets an equal share of the time left, but at least `LEAST_SLICE`.
    """
    clock, left = Clock(seconds), {entry.name: entry for entry in entries}
    with ProcessPoolExecutor(jobs) as pool:
        running: dict[Future[Found], LibraryEntry] = {}
        begun, stopped = 0, False
        while True:
            while not stopped and len(running) < jobs:
                if clock.seconds_left() <= (LEAST_SLICE if begun >= jobs else 0):
                    break
                busy = {entry.name for entry in running.values()}
                turns = []
                for name in left.keys() - busy:
                    try:
                        record = store.record(left[name])
                    except FileFormatError as error:
                        del left[name]
                        yield str(error)
                        continue
                    if record is None or record.gap > 0:
                        turns.append((*_order(record), left[name].n, name))
                if not turns:
                    break
                entry, untried = left[min(turns)[-1]], sum(one[0] == 0 for one in turns)
                share = clock.seconds_left() * jobs / max(1, untried + len(running))
                slice_seconds = min(max(share, LEAST_SLICE), clock.seconds_left())
                running[pool.submit(_attempt, entry.name, store.folder, slice_seconds)] = entry
                begun += 1
            if not running:
                return
            try:
                finished = wait(running, return_when=FIRST_COMPLETED).done
            except KeyboardInterrupt:
                # It has ended the solves in the other processes too.
                stopped, finished = True, wait(running).done
            for done in finished:
                entry = running.pop(done)
                try:
                    yield keep(entry, store, *done.result())
                except Exception as error:  # noqa: BLE001 (one failure must not end the others)
                    left.pop(entry.name, None)
                    yield f"{entry.name}: {error}"


def _order(record: Record | None) -> tuple[int, float]:
    return (0, -math.inf) if record is None else (record.attempts, -record.gap)


def _attempt(name: str, folder: Path, seconds: float) -> Found:
    entry = library(name)
    return attempt(entry, RecordStore(folder).record(entry), seconds)


if __name__ == "__main__":
    run(main)
