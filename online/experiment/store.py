"""The results file: SQLite, one transaction for each finished trial."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from instances import FileFormatError

from .declaration import canonical
from .plan import Plan
from .rows import FAILED, OptimumRow, TrialRow
from .work import Done, TrialDone

APPLICATION_ID = 0x4C4C4D48
"""'LLMH', which `file` and SQLite's tools show: tells our files from other databases."""

VERSION = 1
WAIT_SECONDS = 120.0
"""How long to wait for another process's transaction; each lasts milliseconds."""

TRIAL_COLUMNS = tuple(field.name for field in fields(TrialRow))
OPTIMUM_COLUMNS = tuple(field.name for field in fields(OptimumRow))

_TYPES = {"int": "INTEGER", "int | None": "INTEGER", "float | None": "REAL"}


def _columns(row: type[TrialRow] | type[OptimumRow]) -> str:
    parts = []
    for field in fields(row):
        kind = _TYPES.get(str(field.type), "TEXT")
        needed = "" if "None" in str(field.type) else " NOT NULL"
        parts.append(f"{field.name} {kind}{needed}")
    return ", ".join(parts) + ", PRIMARY KEY (key)"


SCHEMA = f"""
CREATE TABLE trials ({_columns(TrialRow)}) WITHOUT ROWID;
CREATE TABLE optima ({_columns(OptimumRow)}) WITHOUT ROWID;
CREATE INDEX optima_of_instance ON optima (instance, solver, version);
CREATE TABLE instances (digest TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, solver TEXT,
    declaration TEXT NOT NULL, UNIQUE (declaration, version)
);
CREATE TABLE members (
    experiment INTEGER NOT NULL REFERENCES experiments (id), position INTEGER NOT NULL,
    family TEXT NOT NULL, draw INTEGER NOT NULL, name TEXT, policy TEXT NOT NULL,
    predictions TEXT NOT NULL, trial TEXT NOT NULL, PRIMARY KEY (experiment, position)
) WITHOUT ROWID
"""


class Store:
    """A results file open for writing.

    Any number of processes may write to one file on a local disk (SQLite's write-ahead log does
    not work across network file systems): a row that is there already is left as it is.

    Raises
    ------
    FileFormatError: the file exists and is not one of ours.
    OSError: it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._database = _open(self.path, create=True)
        try:
            with self._transaction():
                if _is_new(self._database):
                    for statement in SCHEMA.split(";"):
                        self._database.execute(statement)
                    self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    self._database.execute(f"PRAGMA user_version = {VERSION}")
            _check(self._database, self.path)
            # Committed work survives the death of the process; syncing at each commit would only
            # guard it against the death of the machine, and that cannot corrupt the file either.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            self._database.close()
            raise _explained(self.path, error) from None
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def enter(self, plan: Plan) -> int:
        """Enter an experiment, its instances and the places of its trials; returns its id.

        Entering it again changes nothing.
        """
        document = plan.experiment.to_document()
        solver = None if document["solver"] is None else canonical(document["solver"])
        row = (plan.experiment.name, plan.version, solver, canonical(document))
        with self._transaction():
            self._database.execute(
                "INSERT INTO experiments (name, version, solver, declaration)"
                " VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                row,
            )
            found = self._database.execute(
                "SELECT id FROM experiments WHERE declaration = ? AND version = ?",
                (row[3], plan.version),
            ).fetchone()
            experiment = int(found[0])
            self._database.executemany(
                "INSERT INTO instances VALUES (?, ?) ON CONFLICT DO NOTHING",
                [(digest, json.dumps(each)) for digest, each in plan.documents.items()],
            )
            self._database.executemany(
                "INSERT INTO members VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [
                    (experiment, position, *astuple(member))
                    for position, member in enumerate(plan.members)
                ],
            )
        return experiment

    def add(self, done: Done) -> bool:
        """Store a finished trial or optimum; False where it was there already."""
        trial = isinstance(done, TrialDone)
        row = done.row if isinstance(done, TrialDone) else done
        table, columns = ("trials", TRIAL_COLUMNS) if trial else ("optima", OPTIMUM_COLUMNS)
        with self._transaction():
            if isinstance(done, TrialDone) and done.realised is not None:
                self._database.execute(
                    "INSERT INTO instances VALUES (?, ?) ON CONFLICT DO NOTHING",
                    (done.row.instance, json.dumps(done.realised)),
                )
            marks = ", ".join("?" * len(columns))
            cursor = self._database.execute(
                f"INSERT INTO {table} VALUES ({marks}) ON CONFLICT DO NOTHING", astuple(row)
            )
        return cursor.rowcount == 1

    def trials(self) -> dict[str, tuple[str, str | None, str]]:
        """Status, realised instance and versions (JSON) of each stored trial, by key."""
        rows = self._database.execute("SELECT key, status, instance, versions FROM trials")
        return {key: (status, instance, used) for key, status, instance, used in rows}

    def optima(self) -> dict[str, str]:
        """Status of each stored optimum, by key."""
        return dict(self._database.execute("SELECT key, status FROM optima"))

    def status(self, table: str, key: str) -> str | None:
        """Of a trial or an optimum that may have been stored, perhaps by another process."""
        query = f"SELECT status FROM {table} WHERE key = ?"
        found = self._database.execute(query, (key,)).fetchone()
        return None if found is None else str(found[0])

    def document(self, digest: str) -> Mapping[str, Any]:
        """An instance as JSON."""
        found = self._database.execute(
            "SELECT document FROM instances WHERE digest = ?", (digest,)
        ).fetchone()
        document: dict[str, Any] = json.loads(found[0])
        return document

    def forget_failures(self, table: str, keys: Iterable[str]) -> None:
        """Remove those of the trials or optima named that failed, so that they are tried again."""
        with self._transaction():
            self._database.executemany(
                f"DELETE FROM {table} WHERE key = ? AND status = ?", [(key, FAILED) for key in keys]
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Immediate: two that begin by reading and then both want to write would fail, not wait.
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def open_for_reading(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A results file, even while others write to it.

    Raises
    ------
    FileNotFoundError: there is none.
    FileFormatError: the file is not one of ours.
    """
    path = Path(path)
    path.stat()
    database = _open(path, create=False)
    try:
        _check(database, path)
    except sqlite3.Error as error:
        database.close()
        raise _explained(path, error) from None
    except BaseException:
        database.close()
        raise
    return database


def _open(path: Path, *, create: bool) -> sqlite3.Connection:
    mode = "rwc" if create else "ro"
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            timeout=WAIT_SECONDS,
            isolation_level=None,
            uri=True,
        )
    except sqlite3.Error as error:
        raise _explained(path, error) from None


def _is_new(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def _check(database: sqlite3.Connection, path: Path) -> None:
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise FileFormatError(path, "is not a results file of run_experiment.py")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise FileFormatError(path, f"has format version {version}; this release reads {VERSION}")


def _explained(path: Path, error: sqlite3.Error) -> Exception:
    if isinstance(error, sqlite3.OperationalError):
        return OSError(None, f"cannot be opened as a results file: {error}", str(path))
    return FileFormatError(path, f"is not a results file of run_experiment.py: {error}")
