"""A finished trial and a finished optimum, as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from instances import InvalidTypeError

FAILED = "failed"
"""Status of what ended with an error; its message is in ``error``."""


@dataclass(frozen=True)
class TrialRow:
    """One policy on one instance. Columns that hold several values hold JSON.

    Attributes
    ----------
    key : SHA-256 (hex) of what defines the trial: problem, policy, params, predictions, seed,
        version and sources.
    problem : digest of the instance, or of generator, parameters and seed of an arrival source.
    instance : digest of the realised instance; None for a run without one.
    policy, params, predictions, seed, version : what was run; JSON for the middle two.
    status : ``"completed"``, why requests were left unserved, or ``"failed"``.
    requests, memory_limit : n and M.
    total_latency : recomputed from start times, rounds; None unless completed.
    evictions : in the run.
    start_rounds : JSON list, shape (n,): start of the last attempt; None where there is none.
    attempts : JSON list of [request, start round, end round, completed], cancelled ones included:
        memory over time follows from these and the instance. None where it does not: requests
        were held midway, or preempted with their tokens kept.
    error, traceback : of a failed trial.
    versions : JSON, see `versions.versions`; under ``"user_sources"`` digests of the user's code.
    seconds : the run's.
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
    total_latency: int | None = None
    evictions: int | None = None
    start_rounds: str | None = None
    attempts: str | None = None
    error: str | None = None
    traceback: str | None = None
    versions: str = "{}"
    seconds: float | None = None


@dataclass(frozen=True)
class OptimumRow:
    """What is known of the hindsight optimum of one instance under given solver limits.

    Attributes
    ----------
    key : SHA-256 (hex) of instance, solver, version and sources.
    instance : digest.
    solver : JSON of `Solver.options`.
    status : ``"optimal"`` (proved), ``"feasible"`` or ``"failed"``.
    upper_bound, lower_bound, certified_lower_bound, stop_reason, nodes : of `SolveResult`.
    start_times : JSON list, shape (n,), of the best schedule found.
    error, traceback : of a solve that failed.
    versions : JSON, see `versions.versions`.
    seconds : the solver's.
    sources : digest of the code that looked for it; None in files of format 1.
    """

    key: str
    instance: str
    solver: str
    version: str
    status: str
    upper_bound: int | None = None
    lower_bound: int | None = None
    certified_lower_bound: int | None = None
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
    """The place of a trial in an experiment; attributes as in `reading.Result`."""

    experiment: str
    version: str
    position: int
    family: str
    draw: int
    name: str | None
    policy: str
    predictions: str
    document: str | None


Row = TypeVar("Row", TrialRow, OptimumRow, PlaceRow)

_KINDS = {"int": int, "str": str, "float": float}


def row_of(kind: type[Row], cells: Sequence[Any]) -> Row:
    """A row from the cells of a table, which may hold anything: SQLite does not check types.

    Raises
    ------
    InvalidTypeError: a cell of another type than its column.
    """
    for field, cell in zip(fields(kind), cells, strict=True):
        needed, _, optional = str(field.type).partition(" | ")
        if not (cell is None and optional) and type(cell) is not _KINDS[needed]:
            raise InvalidTypeError(kind.__name__, field.name, cell, f"is not of type {field.type}")
    return kind(*cells)
