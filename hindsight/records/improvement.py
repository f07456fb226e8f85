"""Records from results of a solve, and attempts to improve a record."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from typing import Any, cast

from hindsight.certificates.format import CertificateError, read_certificate
from hindsight.certificates.writing import make_certificate, state_prices_of
from hindsight.configurations.proofs import StatePrices
from hindsight.outcomes.proofs import Proof
from hindsight.outcomes.results import SolveResult
from hindsight.runtime.clock import Clock
from hindsight.seconds.results import SecondsResult, rounded_down
from hindsight.service.results import AttainmentResult
from instances import Instance, InvalidValueError, LibraryEntry, Record, RecordStore
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

AnyResult = SolveResult | SecondsResult | AttainmentResult

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
    result: AnyResult,
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
    result : SolveResult or SecondsResult or AttainmentResult
        Result for the entry's instance and goal; of `hindsight.attainment` with ``late="serve"``.
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
    goal, digest = _goal_of(result)
    level = getattr(result, "level", None)
    if (goal, digest, level) != (entry.goal, entry.digest, entry.level):
        reason = f"is not a result of {entry.name} for {entry.goal}"
        raise InvalidValueError(None, "result", result, reason)
    if isinstance(result, SecondsResult):
        schedule: Any = result.schedule.without_waiting()
        exact: Bound = rounded_down(result.certified_lower_bound)
    elif isinstance(result, AttainmentResult):
        schedule, exact = result.schedule, 0
    else:
        schedule, exact = result.schedule, result.certified_lower_bound
    lower, proof = closed_form_bound(entry)
    certificate = None
    # What needs no certificate in seconds is often larger than what prices prove.
    verified = lower if goal == "seconds" else 0
    if known is not None and known.certified:
        verified = max(verified, known.lower_bound)
    if not isinstance(result, AttainmentResult) and goal not in UNCERTIFIED and exact > verified:
        found = _certified(entry, result, verified, time_limit)
        if goal != "seconds" or found[0] > lower:
            lower, proof, certificate = found
    return checked_record(entry, schedule, lower, proof, method), certificate


def _goal_of(result: AnyResult) -> tuple[str, str]:
    if isinstance(result, AttainmentResult):
        return LATE, result.problem.digest
    if isinstance(result, SecondsResult):
        return "seconds", result.workload.digest
    goal = "preemptive_total_latency" if result.preemptive else str(result.objective)
    return goal, result.instance.digest


def _certified(
    entry: LibraryEntry,
    result: SolveResult | SecondsResult,
    verified: Bound,
    time_limit: float | None,
) -> tuple[Bound, str, bytes]:
    """Write a certificate as small as possible; return its checked bound, its kind and its bytes.

    Prices are not rounded so far that the bound falls to the one verified before.
    """
    clock = Clock(time_limit)
    proved = result.status == "optimal"
    if isinstance(result, SecondsResult):
        time_limit = min(SECONDS_LIMIT, clock.seconds_left())
    document = make_certificate(result.schedule, result.proof, search=proved, time_limit=time_limit)
    packed = compressed(document)
    prices = result.proof.steps[0] if isinstance(result.proof, Proof) else None
    coarse = iter(COARSER_PRICES)
    while (
        document["proof"]["kind"] == "state-prices"
        and isinstance(result, SolveResult)
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
    result: AnyResult,
    store: RecordStore,
    *,
    method: str = "solve",
    time_limit: float | None = None,
) -> Gain:
    """Add a result of `hindsight.solve`, or of `hindsight.attainment`, to the records if better.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    result : SolveResult or SecondsResult or AttainmentResult
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
    from hindsight.service.attainment import attainment
    from hindsight.solver import solve

    clock = Clock(seconds)
    attempts = 0 if known is None else known.attempts
    options: dict[str, Any] = {"seed": attempts, "threads": threads, "should_stop": should_stop}
    if known is not None:
        check_schedule(entry, known)
    if entry.level is not None:
        result: Any = attainment(
            entry.instance, entry.level, seconds, late="serve", progress=None, **options
        )
    else:
        options |= _solve_options(entry, known)
        instance = cast(Instance, entry.instance)
        result = solve(instance, SOLVING_SHARE * seconds, progress=False, **options)
    # After Ctrl-C the user waits only these seconds for a better certificate.
    is_stopped = should_stop is not None and should_stop()
    left = LEAST_SECONDS if is_stopped else max(LEAST_SECONDS, clock.seconds_left())
    method = f"improve, {seconds:.0f} s, seed {attempts}"
    found, certificate = record_of(entry, result, known, method=method, time_limit=left)
    return found.tried(attempts + 1), certificate


def _solve_options(entry: LibraryEntry, known: Record | None) -> dict[str, Any]:
    """Return what `hindsight.solve` is told of a goal, and of what is known."""
    options: dict[str, Any] = {} if known is None else {"start": known.schedule}
    if entry.goal == "makespan":
        options["objective"] = "makespan"
    elif entry.goal != "seconds":
        options["preemptive"] = entry.goal == "preemptive_total_latency"
    if (prices := _known_prices(entry, known)) is not None:
        options["bounds"] = lambda _: prices
    return options


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
