"""The results file: SQLite, one transaction for each finished trial."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from instances import FileFormatError, InvalidTypeError
from instances.files import parse_json

from .declaration import canonical
from .plan import Plan
from .rows import FAILED, OptimumRow, TrialRow
from .work import Done, TrialDone

APPLICATION_ID = 0x4C4C4D48
"""'LLMH', which `file` and SQLite's tools show: tells our files from other databases."""

VERSION = 2
READABLE = (1, VERSION)
"""In format 1 a key did not hold the sources, so nothing is added to such a file."""

WAIT_SECONDS = 120.0
"""How long to wait for another process's transaction; each lasts milliseconds."""

TRIAL_COLUMNS = tuple(field.name for field in fields(TrialRow))
OPTIMUM_COLUMNS = tuple(field.name for field in fields(OptimumRow))

_OF_THE_PLACE = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM),
)
"""What says nothing about the content of the file."""

Cell = TypeVar("Cell", dict[str, Any], list[Any])

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
CREATE INDEX optima_of_instance ON optima (instance, solver, version, sources);
CREATE TABLE instances (digest TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, solver TEXT,
    declaration TEXT NOT NULL, sources TEXT NOT NULL, UNIQUE (declaration, version)
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
    FileFormatError: the file exists and is not one of ours, is one of format 1, or damaged.
    OSError: it cannot be written, or not now. Leaving the context raises these too.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with _explained(self.path):
            self._database = _open(self.path, "mode=rwc")
            try:
                self._prepare()
            except BaseException:
                self._database.close()
                raise

    def _prepare(self) -> None:
        with self._transaction():
            if _is_new(self._database):
                for statement in SCHEMA.split(";"):
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._database.execute(f"PRAGMA user_version = {VERSION}")
        _check(self._database, self.path, (VERSION,))
        # Committed work survives the death of the process; syncing at each commit would only
        # guard it against the death of the machine, and that cannot corrupt the file either.
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            with _explained(self.path):
                raise error

    def close(self) -> None:
        """Close the file; the last to do so leaves it readable where nothing can be written."""
        with suppress(sqlite3.Error):
            self._database.execute("PRAGMA busy_timeout = 0")
            self._database.execute("PRAGMA journal_mode = DELETE")
        self._database.close()

    def enter(self, plan: Plan) -> int:
        """Enter an experiment, its instances and the places of its trials; returns its id.

        Entering it again changes nothing, unless the code has changed since: its places then lead
        to the trials of the code of now. Those of before stay in the file, for that code.
        """
        document = plan.experiment.to_document()
        solver = None if document["solver"] is None else canonical(document["solver"])
        row = (plan.experiment.name, plan.version, solver, canonical(document), plan.sources)
        with self._transaction():
            found = self._database.execute(
                "INSERT INTO experiments (name, version, solver, declaration, sources)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (declaration, version)"
                " DO UPDATE SET sources = excluded.sources RETURNING id",
                row,
            ).fetchone()
            experiment = int(found[0])
            self._database.executemany(
                "INSERT INTO instances VALUES (?, ?) ON CONFLICT DO NOTHING",
                [(digest, json.dumps(each)) for digest, each in plan.documents.items()],
            )
            self._database.execute("DELETE FROM members WHERE experiment = ?", (experiment,))
            self._database.executemany(
                "INSERT INTO members VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
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

    def trials(self) -> dict[str, tuple[str, str | None]]:
        """Status and realised instance of each stored trial, by key."""
        rows = self._database.execute("SELECT key, status, instance FROM trials")
        return {key: (status, instance) for key, status, instance in rows}

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
        if found is None:
            raise FileFormatError(self.path, f"lacks the instance {digest!r}")
        try:
            return json_cell(f"instance {digest!r}", "document", found[0], dict)
        except (FileFormatError, InvalidTypeError) as error:
            raise FileFormatError(self.path, str(error)) from None

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
            self._database.execute("COMMIT")
        except BaseException:
            # On a full disk SQLite has taken the transaction back itself.
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise


@contextmanager
def open_for_reading(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A results file, even while others write to it, and wherever it lies.

    Raises
    ------
    FileNotFoundError: there is none.
    OSError: it cannot be read, or not now.
    FileFormatError: the file is not one of ours, or damaged.
    """
    path = Path(path)
    path.stat()
    with _explained(path):
        database = _open(path, "mode=ro")
        try:
            try:
                _check(database, path, READABLE)
            except sqlite3.OperationalError as error:
                log = path.with_name(path.name + "-wal")
                if _code(error) != sqlite3.SQLITE_CANTOPEN or (log.exists() and log.stat().st_size):
                    raise
                # Where the log cannot be made, and nothing is in one, nobody writes either.
                database.close()
                database = _open(path, "immutable=1")
                _check(database, path, READABLE)
            yield database
        finally:
            database.close()


def json_cell(place: str, column: str, text: str, kind: type[Cell]) -> Cell:
    """A cell that holds JSON of one kind.

    Raises
    ------
    FileFormatError, InvalidTypeError: it does not.
    """
    if not isinstance(text, str):
        raise InvalidTypeError(place, column, text, "is not JSON text")
    value = parse_json(text, f"{place}: {column}")
    if not isinstance(value, kind):
        raise InvalidTypeError(place, column, text, f"is not a JSON {kind.__name__}")
    return value


def _open(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        timeout=WAIT_SECONDS,
        isolation_level=None,
        uri=True,
    )


def _is_new(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def _check(database: sqlite3.Connection, path: Path, known: Collection[int]) -> None:
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise FileFormatError(path, "is not a results file of run_experiment.py")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version in READABLE and version not in known:
        reason = "which this release reads, but does not add to: name a new file"
        raise FileFormatError(path, f"has format version {version}, {reason}")
    if version not in known:
        raise FileFormatError(path, f"has format version {version}; this release reads {VERSION}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What SQLite raises, as an error of the file or of the place where it lies."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in _OF_THE_PLACE:
            reason = f"cannot be opened, read or written as a results file: {error}"
            raise OSError(None, reason, str(path)) from None
        if code == sqlite3.SQLITE_NOTADB:
            reason = "is not a results file of run_experiment.py"
        else:
            reason = "is a damaged results file"
        raise FileFormatError(path, f"{reason}: {error}") from None


def _code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None where the module itself refuses."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
