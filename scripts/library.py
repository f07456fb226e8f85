"""Verify and improve the records of the library; score policies, and write the page's files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from _checkout import ROOT

import hindsight
from hindsight.outcomes.result import percent
from hindsight.records.improvement import record_of, solving_goal
from hindsight.records.verification import check_schedule, verify_record
from hindsight.runtime.clock import Clock
from instances import FileFormatError, LibraryEntry, Record, RecordStore
from instances.catalogue.library import library
from instances.files import write_atomically
from online.commands.console import FAILED_STATUS, complain, run, say
from studies.library.page import SCORES, write_library_summary
from studies.library.scores import play, scores_csv

PAGE, TRIALS = ROOT / "docs" / "library", ROOT / "results" / "library.jsonl"
LEAST_SLICE, SOLVING_SHARE = 5.0, 0.7
"""Seconds below which an attempt does hardly more than begin. Share of the time of an attempt that
the solve gets. The rest is for the certificate."""


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
    failed = 0
    for news in improve(entries, store, time_limit, jobs):
        if isinstance(news, str):
            failed += 1
            complain(news)
        else:
            before, after = ("no record" if one is None else one.interval for one in news)
            say(f"{news[1].entry.name}: {before} -> {after}, {percent(news[1].gap)}")
    return FAILED_STATUS if failed else 0


def improve(
    entries: Iterable[LibraryEntry], store: RecordStore, seconds: float, jobs: int = 1
) -> Iterator[tuple[Record | None, Record] | str]:
    """Improve the records with the widest gaps; yield each before and after, or a failure.

    Records tried least come first, of these the widest gap, of these the smallest instance. Each
    gets an equal share of the time, but at least `LEAST_SLICE`: if there are too many, the last
    ones are left out.
    """
    turns = []
    for entry in entries:
        try:
            record = store.record(entry)
        except FileFormatError as error:
            yield str(error)
            continue
        if record is None or record.gap > 0:
            order = (0, -math.inf) if record is None else (record.attempts, -record.gap)
            turns.append((*order, entry.n, entry.name))
    share = max(LEAST_SLICE, seconds * jobs / max(1, len(turns)))
    names = [name for *_, name in sorted(turns)[: max(jobs, int(seconds * jobs / share))]]
    waiting, stopped = iter(names), False
    with ProcessPoolExecutor(jobs) as pool:
        running: dict[Future[Any], str] = {}
        while True:
            for name in islice(waiting, 0 if stopped else jobs - len(running)):
                running[pool.submit(_attempt, name, store.folder, share)] = name
            if not running:
                return
            try:
                finished = wait(running, return_when=FIRST_COMPLETED).done
            except KeyboardInterrupt:
                # It has ended the solves in the other processes too.
                stopped, finished = True, wait(running).done
            for task in finished:
                entry = library()[running.pop(task)]
                try:
                    known, (record, proof) = store.record(entry), task.result()
                    yield known, store.put(record, proof)
                except Exception as error:  # noqa: BLE001 (one failure must not end the others)
                    yield f"{entry.name}: {error}"


def _attempt(name: str, folder: Path, seconds: float) -> tuple[Record, bytes | None]:
    """Return a record of a solve from the known schedule, and the certificate of its bound.

    The seed of the solve is the number of earlier attempts on this record.
    """
    entry = library()[name]
    known, clock = RecordStore(folder).record(entry), Clock(seconds)
    attempts = 0 if known is None else known.attempts
    start = None
    if known is not None:
        check_schedule(entry, known)
        start = None if entry.level is not None else known.schedule
    options = {"threads": 1, "seed": attempts, "start": start, **solving_goal(entry)}
    result = hindsight.solve(entry.instance, SOLVING_SHARE * seconds, progress=False, **options)
    # After Ctrl-C, spend only `LEAST_SLICE` on the certificate.
    is_stopped = result.stop_reason == "interrupted"
    left = LEAST_SLICE if is_stopped else max(LEAST_SLICE, clock.seconds_left())
    method = f"improve, {seconds:.0f} s, seed {attempts}"
    found, proof = record_of(entry, result, known, method=method, time_limit=left)
    return found.tried(attempts + 1), proof


if __name__ == "__main__":
    run(main)
