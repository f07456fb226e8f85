"""The results file: SQLite, one transaction for each finished trial."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from instances import FileFormatError, InvalidTypeError
from instances.files import parse_json
from online.comparison.trial import FAILED

from .documents import canonical
from .plan import Plan


@dataclass(frozen=True)
class TrialRow:
    """A policy on an instance. Columns that hold several values hold JSON.

    Attributes
    ----------
    key : str
        SHA-256 (hex) of what defines the trial: problem, policy, params, predictions, seed, version
        and sources.
    problem : str
        Digest of the instance, or of generator, parameters and seed of an arrival source.
    instance : str or None
        Digest of the realised instance; None for a run without one.
    policy, params, predictions, seed, version : str, str, str, int, str
        What was run; JSON for the middle two.
    status : str
        ``"completed"``, why requests were left unserved, or ``"failed"``.
    requests, memory_limit : int or None
        n and M.
    total_latency : int or str or None
        Recomputed from start times, rounds; in seconds a fraction as text. None unless completed.
    evictions : int or None
        In the run.
    start_rounds : str or None
        JSON list, shape (n,): start of the last attempt, None where there is none; or, where tokens
        of preempted requests were kept, the first and last round of each stretch of each request;
        of a trial in seconds an object, see `documents.schedule_document`.
    attempts : str or None
        JSON list of [request, start round, end round, completed], cancelled ones included: memory
        over time follows from these and the instance. None where it does not: requests were held
        midway, or preempted with their tokens kept, or it is in seconds.
    error, traceback : str or None
        Of a failed trial.
    versions : str
        JSON, see `work.versions`; under ``"user_sources"`` digests of the user's code.
    seconds : float or None
        The run's.
    on_time : int or None
        Requests on time in the run; None without a service level.
    """

    key: str
    problem: str
    instance: str | None
    policy: str
    params: str
    predictions: str
    seed: int
    version: str
    status: str
    requests: int | None = None
    memory_limit: int | None = None
    total_latency: int | str | None = None
    evictions: int | None = None
    start_rounds: str | None = None
    attempts: str | None = None
    error: str | None = None
    traceback: str | None = None
    versions: str = "{}"
    seconds: float | None = None
    on_time: int | None = None


@dataclass(frozen=True)
class OptimumRow:
    """Bounds of the hindsight optimum of one instance, found under given solver limits.

    With a service level the bounds are of the most requests on time of any scheduler.

    Attributes
    ----------
    key : str
        SHA-256 (hex) of instance, solver, version and sources.
    instance : str
        Digest.
    solver : str
        JSON of `Experiment.search_options`; ``{"preemptive": options}`` for a preemptive optimum,
        ``{"level": limits, "search": options}`` for the most requests on time.
    status : str
        ``"optimal"`` (proved), ``"feasible"`` or ``"failed"``.
    upper_bound, lower_bound, certified_lower_bound, stop_reason, nodes
        Of `hindsight.Result`; bounds in seconds are fractions as text. Of requests on time there
        are the first two and the fourth.
    start_times : str or None
        JSON list, shape (n,), of the best schedule found; of a preemptive one the stretches; in
        seconds an object, with the name of the lower bound.
    error, traceback : str or None
        Of a solve that failed.
    versions : str
        JSON, see `work.versions`.
    seconds : float or None
        The solver's.
    sources : str or None
        Digest of the code that looked for it.
    """

    key: str
    instance: str
    solver: str
    version: str
    status: str
    upper_bound: int | str | None = None
    lower_bound: int | str | None = None
    certified_lower_bound: int | str | None = None
    stop_reason: str | None = None
    nodes: int | None = None
    start_times: str | None = None
    error: str | None = None
    traceback: str | None = None
    versions: str = "{}"
    seconds: float | None = None
    sources: str | None = None


@dataclass(frozen=True)
class PlaceRow:
    """The place of a trial in an experiment; attributes as in `online.comparison.Trial`.

    Attributes
    ----------
    experiment, version, position, family, draw : str, str, int, str, int
        Where it stands.
    name : str or None
        Of the instance.
    policy, predictions : str
        Labels.
    document : str or None
        JSON of the realised instance.
    batch_time : str or None
        JSON of the experiment's; None in rounds.
    level : str or None
        JSON of the limits of the experiment's service level; None without one.
    preempting : str or None
        JSON list of the labels of the policies that may preempt; None without any.
    """

    experiment: str
    version: str
    position: int
    family: str
    draw: int
    name: str | None
    policy: str
    predictions: str
    document: str | None
    batch_time: str | None
    level: str | None = None
    preempting: str | None = None


Done: TypeAlias = tuple[TrialRow | OptimumRow, Mapping[str, Any] | None]
"""A finished task's row, and the instance an arrival source realised; None for one given."""

Row = TypeVar("Row", TrialRow, OptimumRow, PlaceRow)
Cell = TypeVar("Cell", dict[str, Any], list[Any])

APPLICATION_ID = 0x4C4C4D48
"""'LLMH', which `file` and SQLite's tools show: tells our files from other databases."""

VERSION = 2

PREEMPTED = "coalesce(t.start_rounds LIKE '[[%', 0)"
"""Whether a trial's schedule is one of stretches, so that its optimum is the preemptive one."""

_FOREIGN = "is not a results file of llm-hindsight experiment"
WAIT_SECONDS = 120.0
"""How long to wait for another process's transaction; each lasts milliseconds."""

TRIAL_COLUMNS = tuple(field.name for field in fields(TrialRow))
OPTIMUM_COLUMNS = tuple(field.name for field in fields(OptimumRow))

ON_TIME = "on_time"
"""Column of trials that a file has once an experiment with a service level was entered."""

_ENVIRONMENT = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
)
"""SQLite errors caused by the environment, not by a damaged file."""

_PYTHON = {"int": int, "str": str, "float": float, "None": type(None)}
_SQL = {"int": "INTEGER", "str": "TEXT", "float": "REAL"}


def _columns(row: type[TrialRow] | type[OptimumRow]) -> str:
    own = [field for field in fields(row) if field.name != ON_TIME]
    kinds = [(field.name, str(field.type).split(" | ")) for field in own]
    parts = [f"{name} {_SQL[own[0]]}{'' if 'None' in own else ' NOT NULL'}" for name, own in kinds]
    return ", ".join([*parts, "PRIMARY KEY (key)"])


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


ADD_INSTANCE = "INSERT INTO instances VALUES (?, ?) ON CONFLICT DO NOTHING"


class Store:
    """A results file open for writing.

    Any number of processes may write to one file on a local disk (SQLite's write-ahead log does
    not work across network file systems): a row that is there already is left as it is.

    Raises
    ------
    FileFormatError
        The file exists and is not one of ours, or damaged.
    OSError
        It cannot be written, or not now. All that is done with it raises these too.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists():
            _refuse_device(self.path)
        with _explained(self.path):
            self._database = _open(self.path, "mode=rwc")
            try:
                self._prepare()
            except BaseException:
                self._database.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the last to do so leaves it readable where nothing can be written."""
        with suppress(sqlite3.Error):
            self._database.execute("PRAGMA journal_mode = DELETE")
        self._database.close()

    def enter(self, plan: Plan) -> int:
        """Enter an experiment, its instances and the places of its trials; returns its id.

        Entering it again changes nothing, unless its declaration or the code has changed since: its
        places then lead to the trials of now. Those of before stay in the file, to be found again.
        """
        name, options = plan.experiment.name, plan.experiment.search_options()
        solver = None if options is None else canonical(options)
        declaration = canonical(plan.experiment.to_document())
        with self._transaction():
            if plan.experiment.level is not None and not has_on_time(self._database):
                self._database.execute(f"ALTER TABLE trials ADD COLUMN {ON_TIME} INTEGER")
            self._database.execute(
                "INSERT INTO experiments (name, version, solver, declaration, sources)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (declaration, version)"
                " DO UPDATE SET sources = excluded.sources",
                (name, plan.version, solver, declaration, plan.sources),
            )
            (number,) = self._database.execute(
                "SELECT id FROM experiments WHERE declaration = ? AND version = ?",
                (declaration, plan.version),
            ).fetchone()
            self._database.executemany(
                ADD_INSTANCE, [(digest, json.dumps(one)) for digest, one in plan.documents.items()]
            )
            self._database.execute(
                "DELETE FROM members WHERE experiment IN"
                " (SELECT id FROM experiments WHERE name = ? AND version = ?)",
                (name, plan.version),
            )
            places = [(number, k, *astuple(member)) for k, member in enumerate(plan.members)]
            marks = ", ".join("?" * 8)
            self._database.executemany(f"INSERT INTO members VALUES ({marks})", places)
        return int(number)

    def add(self, row: TrialRow | OptimumRow, realised: Mapping[str, Any] | None = None) -> bool:
        """Store a finished trial or optimum; False where it was there already.

        The instance that the trial's arrival source ``realised`` is stored along with it.
        """
        table = "trials" if isinstance(row, TrialRow) else "optima"
        # What is None may be of a column that the file does not have.
        cells = {name: cell for name, cell in asdict(row).items() if cell is not None}
        names, marks = ", ".join(cells), ", ".join("?" * len(cells))
        with self._transaction():
            if realised is not None:
                self._database.execute(ADD_INSTANCE, (row.instance, json.dumps(realised)))
            cursor = self._database.execute(
                f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING",
                tuple(cells.values()),
            )
        return cursor.rowcount == 1

    def trials(self) -> dict[str, tuple[str, str | None, bool]]:
        """Return status, realised instance and whether tokens were kept of each trial, by key."""
        rows = self._read(f"SELECT key, status, instance, {PREEMPTED} FROM trials t")
        return {key: (status, instance, bool(kept)) for key, status, instance, kept in rows}

    def optima(self) -> dict[str, str]:
        """Return the status of each stored optimum, by key."""
        return dict(self._read("SELECT key, status FROM optima"))

    def status(self, table: str, key: str) -> str | None:
        """Return that of a trial or optimum that another process may have stored meanwhile."""
        found = self._read(f"SELECT status FROM {table} WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def document(self, digest: str) -> Mapping[str, Any]:
        """Return an instance's document."""
        found = self._read("SELECT document FROM instances WHERE digest = ?", digest)
        if not found:
            raise FileFormatError(self.path, f"lacks the instance {digest!r}")
        try:
            return json_cell(f"instance {digest!r}", "document", found[0][0], dict)
        except (FileFormatError, InvalidTypeError) as error:
            raise FileFormatError(self.path, str(error)) from None

    def forget_failures(self, table: str, keys: Iterable[str]) -> None:
        """Remove those of the trials or optima named that failed, so that they are tried again."""
        with self._transaction():
            self._database.executemany(
                f"DELETE FROM {table} WHERE key = ? AND status = ?", [(key, FAILED) for key in keys]
            )

    def _prepare(self) -> None:
        with self._transaction():
            if not self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in SCHEMA.split(";"):
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._database.execute(f"PRAGMA user_version = {VERSION}")
        _check(self._database, self.path)
        # Committed work survives the death of the process; syncing at each commit would only
        # guard it against the death of the machine, and that cannot corrupt the file either.
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")

    def _read(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with _explained(self.path):
            return self._database.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _explained(self.path):
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


def has_on_time(database: sqlite3.Connection) -> bool:
    """Tell whether a file has the column `ON_TIME`."""
    return ON_TIME in [row[1] for row in database.execute("PRAGMA table_info(trials)")]


@contextmanager
def open_for_reading(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Open a results file for reading, even while others write to it, and wherever it lies.

    Raises
    ------
    FileNotFoundError
        There is none.
    OSError
        It cannot be read, or not now.
    FileFormatError
        The file is not one of ours, or damaged.
    """
    path = Path(path)
    path.stat()
    _refuse_device(path)
    with _explained(path):
        database = _open(path, "mode=ro")
        try:
            try:
                _check(database, path)
            except sqlite3.OperationalError as error:
                if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                    raise
                _refuse_log(path)
                # Where the log cannot be made, and nothing is in one, nobody writes either.
                database.close()
                database = _open(path, "immutable=1")
                _check(database, path)
            yield database
        finally:
            database.close()


def _refuse_device(path: Path) -> None:
    # SQLite would wait for the other end of a pipe.
    if not path.is_file():
        raise FileFormatError(path, f"{_FOREIGN}: no regular file")


def _refuse_log(path: Path) -> None:
    for log in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-journal")):
        if log.exists() and log.stat().st_size:
            reason = f"cannot be read without {log.name}: copy both where files can be written"
            raise OSError(None, reason, str(path))


def json_cell(place: str, column: str, text: str, kind: type[Cell]) -> Cell:
    """Read a cell that holds JSON of one kind.

    Raises
    ------
    FileFormatError, InvalidTypeError
        It does not.
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


def _check(database: sqlite3.Connection, path: Path) -> None:
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise FileFormatError(path, _FOREIGN)
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise FileFormatError(path, f"has format version {version}; this release reads {VERSION}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise what SQLite raises as an error of the file or of the place where it lies."""
    try:
        yield
    except UnicodeDecodeError as error:
        # The names in a damaged file need be no text.
        raise FileFormatError(path, f"is a damaged results file: {error}") from None
    except sqlite3.Error as error:
        code = _code(error)
        if code in _ENVIRONMENT:
            reason = f"cannot be opened, read or written as a results file: {error}"
            raise OSError(None, reason, str(path)) from None
        reason = _FOREIGN if code == sqlite3.SQLITE_NOTADB else "is a damaged results file"
        raise FileFormatError(path, f"{reason}: {error}") from None


def _code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; None where the module itself refuses."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def row_of(kind: type[Row], cells: Sequence[Any]) -> Row:
    """Make a row of the cells of a table, which may hold anything: SQLite checks no types.

    Raises
    ------
    InvalidTypeError
        A cell of another type than its column.
    """
    for field, cell in zip(fields(kind), cells, strict=True):
        if type(cell) not in [_PYTHON[name] for name in str(field.type).split(" | ")]:
            raise InvalidTypeError(kind.__name__, field.name, cell, f"is not of type {field.type}")
    return kind(*cells)
