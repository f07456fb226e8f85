"""Records from results of a solve, and attempts to improve a record."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hindsight.certificates.format import CertificateError, read_certificate
from hindsight.certificates.writing import make_certificate, state_prices_of
from hindsight.outcomes.goals import OnTime
from hindsight.outcomes.proofs import Proof
from hindsight.outcomes.result import Result, rounded_down
from hindsight.prices.state_proofs import StatePrices
from hindsight.runtime.clock import Clock
from instances import InvalidValueError, LibraryEntry, Record, RecordStore, Workload
from instances.catalogue.records import LATE, Bound
from instances.problem.memory_rule import TOKENS

from .verification import (
    UNCERTIFIED,
    RefusedRecordError,
    certified_bound,
    check_schedule,
    checked_record,
    closed_form_bound,
)

SOLVING_SHARE = 0.7
"""Share of an attempt's time for the solve; the rest writes and checks the certificate."""

LEAST_SECONDS = 5.0
"""Least seconds for a certificate, however little time is left."""

SECONDS_LIMIT = 7.2
"""Time limit of a certificate in seconds, of which a check takes a third at most: for all eight
instances of the library 7 s of processor time. It loses up to 0.6 % against finer grids."""

MOST_BYTES = 100_000
"""Bytes of a compressed certificate that closes no gap, above which its prices are rounded."""

COARSER_PRICES = ((64, 1), (32, 1), (16, 1), (16, 2), (16, 4), (16, 8), (16, 16))
"""Denominators of rounded prices, and epochs that share them. At thirty requests the first loses 2
rounds in 4284 and shrinks the certificate from 208,000 bytes to 127,000; the third loses 11 rounds
and needs 92,000 bytes. Of `w25-uniform-n50-00`, a thousand epochs, the third needs 456,000 bytes
for 11,963 rounds, and the last but one 61,000 bytes for 11,902."""


@dataclass(frozen=True)
class Gain:
    """Change of a record.

    Attributes
    ----------
    entry : LibraryEntry
        Library entry of the instance.
    before : Record or None
        The record before; None if there was none.
    after : Record
        The record now.
    """

    entry: LibraryEntry
    before: Record | None
    after: Record

    @property
    def improves(self) -> bool:
        """Tell whether a bound improved."""
        before, after = self.before, self.after
        return (
            before is None
            or after.upper_bound < before.upper_bound
            or after.lower_bound > before.lower_bound
        )


def compressed(certificate: dict[str, Any]) -> bytes:
    """Compress a certificate as the library stores it."""
    text = json.dumps(certificate, separators=(",", ":")) + "\n"
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def record_of(
    entry: LibraryEntry,
    result: Result,
    known: Record | None = None,
    *,
    method: str = "solve",
    time_limit: float | None = None,
) -> tuple[Record, bytes | None]:
    """Create a record from a result, with the certificate of its bound.

    If the result's bound is above the known one, a certificate is written and checked, and the
    bound it proves becomes the verified bound.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    result : Result
        Result for the entry's instance and goal; of `OnTime` with ``late="serve"``.
    known : Record or None, default None
        The record known so far.
    method : str, default "solve"
        Method to store with the record.
    time_limit : float or None, default None
        Seconds for the certificate; see `make_certificate`.

    Raises
    ------
    InvalidValueError
        The result belongs to another instance or another goal.
    RefusedRecordError
        The schedule is infeasible.
    """
    goal = _goal_of(result)
    level = result.goal.level if isinstance(result.goal, OnTime) else None
    if (goal, result.problem.digest, level) != (entry.goal, entry.digest, entry.level):
        reason = f"is not a result of {entry.name} for {entry.goal}"
        raise InvalidValueError(None, "result", result, reason)
    schedule: Any = result.schedule
    exact: Bound = 0 if goal == LATE else result.certified_lower_bound
    if goal == "seconds":
        schedule, exact = schedule.without_waiting(), rounded_down(Fraction(exact))
    lower, proof = closed_form_bound(entry)
    certificate = None
    # What needs no certificate in seconds is often larger than what prices prove.
    verified = lower if goal == "seconds" else 0
    if known is not None and known.certified:
        verified = max(verified, known.lower_bound)
    if goal != LATE and goal not in UNCERTIFIED and exact > verified:
        found = _certified(entry, result, verified, time_limit)
        if goal != "seconds" or found[0] > lower:
            lower, proof, certificate = found
    return checked_record(entry, schedule, lower, proof, method), certificate


def _goal_of(result: Result) -> str:
    """Return the goal of a result as records name it."""
    if isinstance(result.goal, OnTime):
        return LATE
    if isinstance(result.problem, Workload):
        return "seconds"
    if result.preemption != "never":
        return "preemptive_total_latency"
    return "makespan" if result.goal == "makespan" else "total_latency"


def _certified(
    entry: LibraryEntry,
    result: Result,
    verified: Bound,
    time_limit: float | None,
) -> tuple[Bound, str, bytes]:
    """Write a certificate as small as possible; return its checked bound, its kind and its bytes.

    Prices are not rounded so far that the bound falls to the one verified before.
    """
    clock = Clock(time_limit)
    proved = result.status == "optimal"
    if isinstance(result.problem, Workload):
        time_limit = min(SECONDS_LIMIT, clock.seconds_left())
    document = make_certificate(result.schedule, result.proof, search=proved, time_limit=time_limit)
    packed = compressed(document)
    prices = result.proof.steps[0] if isinstance(result.proof, Proof) else None
    coarse = iter(COARSER_PRICES)
    while (
        document["proof"]["kind"] == "state-prices"
        and document["lower_bound"] < document["upper_bound"]
        and len(packed) > MOST_BYTES
        and isinstance(prices, StatePrices)
        and not clock.must_stop()
        and (units := next(coarse, None)) is not None
    ):
        coarser = make_certificate(result.schedule, prices.rounded(*units), search=False)
        if coarser["lower_bound"] <= verified:
            break
        document, packed = coarser, compressed(coarser)
    try:
        lower, kind = certified_bound(entry, document)
    except CertificateError as error:
        raise RefusedRecordError(f"certificate: {error}") from error
    return lower, kind, packed


def take_result(
    entry: LibraryEntry,
    result: Result,
    store: RecordStore,
    *,
    method: str = "solve",
    time_limit: float | None = None,
) -> Gain:
    """Add a result of `hindsight.solve` to the records if better.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    result : Result
        As `record_of` takes it.
    store : RecordStore
        Store of the old and the new record.
    method : str, default "solve"
        Method to store with the record.
    time_limit : float or None, default None
        Seconds for the certificate; see `make_certificate`.

    Raises
    ------
    InvalidValueError
        The result belongs to another instance or another goal.
    RefusedRecordError
        The schedule is infeasible.
    OSError
        The store cannot be written.
    """
    known = store.record(entry)
    found = record_of(entry, result, known, method=method, time_limit=time_limit)
    return keep(entry, store, *found)


def keep(entry: LibraryEntry, store: RecordStore, found: Record, proof: bytes | None) -> Gain:
    """Merge a result, and the certificate of its bound, into the store."""
    known = store.record(entry)
    return Gain(entry, known, store.put(found, proof))


def attempt(
    entry: LibraryEntry,
    known: Record | None,
    seconds: float,
    *,
    threads: int = 1,
    should_stop: Any = None,
) -> tuple[Record, bytes | None]:
    """Solve an entry, starting from its best schedule and prices; return a record of the result.

    Each attempt uses a different seed.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    known : Record or None
        The record known so far.
    seconds : float
        Seconds for the solve and its certificate.
    threads : int, default 1
        Threads of the solve.
    should_stop : Callable[[], bool] or None, default None
        Polled; returning True interrupts the solve.

    Raises
    ------
    RefusedRecordError
        The known record does not hold.
    """
    from hindsight.solver import solve_until

    clock = Clock(seconds)
    attempts = 0 if known is None else known.attempts
    if known is not None:
        check_schedule(entry, known)
    prices = _known_prices(entry, known)
    result = solve_until(
        should_stop,
        entry.instance,
        seconds if entry.goal == LATE else SOLVING_SHARE * seconds,
        threads=threads,
        seed=attempts,
        start=None if known is None or entry.goal == LATE else known.schedule,
        bounds=() if prices is None else (lambda _: prices,),
        **solving_goal(entry),
    )
    # After Ctrl-C the user waits only these seconds for a better certificate.
    is_stopped = should_stop is not None and should_stop()
    left = LEAST_SECONDS if is_stopped else max(LEAST_SECONDS, clock.seconds_left())
    method = f"improve, {seconds:.0f} s, seed {attempts}"
    found, certificate = record_of(entry, result, known, method=method, time_limit=left)
    return found.tried(attempts + 1), certificate


def solving_goal(entry: LibraryEntry) -> dict[str, Any]:
    """Return ``goal`` and ``preemption`` of `hindsight.solve` for the goal of an entry."""
    if entry.level is not None:
        return {"goal": OnTime(entry.level, "serve")}
    if entry.goal == "preemptive_total_latency":
        return {"preemption": "keep"}
    return {"goal": "makespan" if entry.goal == "makespan" else "latency"}


def _known_prices(entry: LibraryEntry, known: Record | None) -> StatePrices | None:
    """Read the state prices from the certificate of a record, if the solve can use them.

    Raises
    ------
    RefusedRecordError
        The certificate is malformed.
    FileFormatError
        The file is not a certificate.
    """
    if known is None or known.certificate is None or entry.goal != "total_latency":
        return None
    if not known.certificate.exists():  # A wheel has records but no certificates.
        return None
    if entry.problem.memory_rule != TOKENS:
        return None
    try:
        return state_prices_of(read_certificate(known.certificate))
    except CertificateError as error:
        raise RefusedRecordError(f"certificate: {error}") from error
