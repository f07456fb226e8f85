"""Verify or improve the records of the library, score policies, and write files for its page.

A record has the best known bounds on the optimum of an instance.
"""

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
from online.commands.console import FAILED_STATUS, complain, fail, run, say
from studies.library.page import SCORES, write_library_summary
from studies.library.scores import play, scores_csv

PAGE, TRIALS = ROOT / "docs" / "library", ROOT / "results" / "library.jsonl"
LEAST_SLICE, SOLVING_SHARE = 5.0, 0.7
"""LEAST_SLICE: least seconds of an attempt, since less hardly suffices to begin. SOLVING_SHARE: the
share of an attempt's time for the solve. The rest is for the certificate."""


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
    """Verify or improve records of the library, or measure policies on it.

    verify checks records. improve spends a given time on the records with the widest gaps. It
    writes an improved record at once, so that after a kill the next run continues. Ctrl-C ends the
    running attempts and keeps their results. score runs every policy on every instance, which takes
    hours, and writes the scores to docs/library. After an interruption the next run continues.
    summary writes the figure of gaps and the table of instances to docs/library. The exit status is
    1 if a record is refused or an attempt fails.
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
        if not (store.folder / "records").is_dir():
            reason = "has no folder named records: give one that improve or RecordStore.put wrote"
            fail(f"--records {store.folder} {reason}, or a copy of instances/catalogue")
        verdicts = [verify_record(entry, store) for entry in entries]
        refused = [one for one in verdicts if one.kind == "refused"]
        for one in refused:
            complain(f"{one.name}: {one.reason}", "rejected")
        count = sum(one.kind != "none" for one in verdicts)
        say(f"{count} records of {len(entries)} instances checked, {len(refused)} refused")
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
    """Try to improve the records with the widest gaps.

    Yield (record before, record after) of each improved record, or a text for each failure. Records
    with the fewest earlier attempts come first. Of these the one with the widest gap comes first,
    and of equal gaps the smallest instance. Each gets an equal share of the time, but at least
    `LEAST_SLICE`. If there are too many records for this, the last ones are left out.
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
                # Ctrl-C has also ended the solves in the other processes, so wait for them.
                stopped, finished = True, wait(running).done
            for task in finished:
                entry = library()[running.pop(task)]
                try:
                    known, (record, proof) = store.record(entry), task.result()
                    yield known, store.put(record, proof)
                except Exception as error:  # noqa: BLE001 (one failure must not end the others)
                    yield f"{entry.name}: {error}"


def _attempt(name: str, folder: Path, seconds: float) -> tuple[Record, bytes | None]:
    """Solve an instance from its known schedule. Return the new record, and its certificate if any.

    The certificate proves the lower bound. The seed of the solve is the number of earlier attempts
    on this record.
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
