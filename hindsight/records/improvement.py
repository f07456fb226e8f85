"""Results of a solve as records, and one attempt to improve a record."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from typing import Any, cast

from hindsight.certificates.format import CertificateError, read_certificate
from hindsight.certificates.writing import make_certificate, state_prices_of
from hindsight.configurations.proofs import StatePrices
from hindsight.outcomes.results import SolveResult
from hindsight.runtime.clock import Clock
from hindsight.seconds.results import SecondsResult, rounded_down
from instances import Instance, InvalidValueError, LibraryEntry, Record, RecordStore
from instances.batch_time.presets import preset
from instances.catalogue.records import Bound
from instances.problem.memory_rule import TOKENS

from .verification import (
    RefusedRecordError,
    certified_bound,
    check_schedule,
    checked_record,
    closed_form_bound,
)

SOLVING_SHARE = 0.7
"""Of an attempt's time; the rest writes and checks the certificate."""

LEAST_SECONDS = 5.0
"""For a certificate, however little time is left."""


MOST_BYTES = 100_000
"""Of a compressed certificate of state prices that closes nothing: larger ones are rounded."""

COARSER_SCALES = (64, 32, 16)
"""Denominators of rounded prices. At thirty requests the first loses 2 rounds in 4284, and takes
127,000 bytes in place of 208,000; the last loses 11, and takes 92,000."""


@dataclass(frozen=True)
class Gain:
    """What became of a record.

    Attributes
    ----------
    entry : LibraryEntry
        Of which instance.
    before : Record or None
        As it was known.
    after : Record
        As it is known now.
    found : str, default ""
        What was handed in, whether it is better or not.
    claimed_bound : int or float or None, default None
        What the solve that was handed in claims, whether it is kept or not.
    """

    entry: LibraryEntry
    before: Record | None
    after: Record
    found: str = ""
    claimed_bound: Bound | None = None

    @property
    def improves(self) -> bool:
        """Tell whether a bound is better than it was, or proved where it was claimed."""
        before, after = self.before, self.after
        return (
            before is None
            or after.upper_bound < before.upper_bound
            or after.lower_bound > before.lower_bound
            or (after.claimed_bound or 0) > max(before.claimed_bound or 0, after.lower_bound)
        )

    @property
    def refuted_claim(self) -> Bound | None:
        """Return the largest bound a solve claimed, where the schedule now known costs less."""
        known = None if self.before is None else self.before.claimed_bound
        claim = max(known or 0, self.claimed_bound or 0)
        return claim if claim > self.after.upper_bound else None


def compressed(certificate: dict[str, Any]) -> bytes:
    """Pack a certificate as the library keeps it."""
    text = json.dumps(certificate, separators=(",", ":")) + "\n"
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def record_of(
    entry: LibraryEntry,
    result: SolveResult | SecondsResult,
    known: Record | None = None,
    *,
    method: str = "solve",
    time_limit: float | None = None,
) -> tuple[Record, bytes | None]:
    """Say what a result of `hindsight.solve` tells of an entry, with the certificate of its bound.

    A certificate is written where the result's bound is above the one known, and checked; the
    verified bound is what it proves. What the solve proved in exact arithmetic beyond that is
    claimed.

    Parameters
    ----------
    entry : LibraryEntry
        Of the library.
    result : SolveResult or SecondsResult
        Of its instance, for its goal.
    known : Record or None, default None
        What is known already.
    method : str, default "solve"
        To be kept with the record.
    time_limit : float or None, default None
        Seconds for the certificate, as in `make_certificate`.

    Raises
    ------
    InvalidValueError
        The result is of another instance, or another goal.
    RefusedRecordError
        Its schedule is infeasible.
    """
    goal, digest = _goal_of(result)
    if (goal, digest) != (entry.goal, entry.digest):
        reason = f"is not a result of {entry.name} for {entry.goal}"
        raise InvalidValueError(None, "result", result, reason)
    if isinstance(result, SecondsResult):
        schedule: Any = result.schedule.without_waiting()
        exact: Bound = rounded_down(result.certified_lower_bound)
    else:
        schedule, exact = result.schedule, result.certified_lower_bound
    lower, proof = closed_form_bound(entry)
    certificate = None
    seconds_or_makespan = isinstance(result, SecondsResult) or goal == "makespan"
    verified = 0 if known is None or not known.certified else known.lower_bound
    if not seconds_or_makespan and exact > verified:
        lower, proof, certificate = _certified(
            entry, cast(SolveResult, result), int(verified), time_limit
        )
    record = checked_record(entry, schedule, lower, proof, method)
    return record.claiming(exact, record.found) if exact > lower else record, certificate


def _goal_of(result: SolveResult | SecondsResult) -> tuple[str, str]:
    if isinstance(result, SecondsResult):
        return "seconds", result.workload.digest
    goal = "preemptive_total_latency" if result.preemptive else str(result.objective)
    return goal, result.instance.digest


def _certified(
    entry: LibraryEntry, result: SolveResult, verified: int, time_limit: float | None
) -> tuple[int, str, bytes]:
    """Write a certificate as small as it may be; return its bound as checked, its kind, and it.

    No price is rounded so far that the bound is not above the one verified before.
    """
    clock = Clock(time_limit)
    proved = result.status == "optimal"
    document = make_certificate(
        result.schedule, result.proof, search=proved, tree=proved, time_limit=time_limit
    )
    packed = compressed(document)
    prices = result.proof and result.proof.steps[0]
    coarse = iter(COARSER_SCALES)
    while (
        document["proof"]["kind"] == "state-prices"
        and document["lower_bound"] < document["upper_bound"]
        and len(packed) > MOST_BYTES
        and isinstance(prices, StatePrices)
        and not clock.must_stop()
        and (scale := next(coarse, None)) is not None
    ):
        coarser = make_certificate(result.schedule, prices.rounded(scale), search=False, tree=False)
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
    result: SolveResult | SecondsResult,
    store: RecordStore,
    *,
    method: str = "solve",
    time_limit: float | None = None,
) -> Gain:
    """Take a result of `hindsight.solve` into the records, where it is better.

    Parameters
    ----------
    entry : LibraryEntry
        Of the library.
    result : SolveResult or SecondsResult
        Of its instance, for its goal.
    store : RecordStore
        Where the record is, and will be.
    method : str, default "solve"
        To be kept with the record.
    time_limit : float or None, default None
        Seconds for the certificate, as in `make_certificate`.

    Raises
    ------
    InvalidValueError
        The result is of another instance, or another goal.
    RefusedRecordError
        Its schedule is infeasible.
    OSError
        The store cannot be written.
    """
    known = store.record(entry)
    found = record_of(entry, result, known, method=method, time_limit=time_limit)
    return keep(entry, store, *found)


def keep(entry: LibraryEntry, store: RecordStore, found: Record, proof: bytes | None) -> Gain:
    """Put what was found, and the certificate of its bound, into the store."""
    known = store.record(entry)
    return Gain(entry, known, store.put(found, proof), claimed_bound=found.claimed_bound)


def attempt(
    entry: LibraryEntry,
    known: Record | None,
    seconds: float,
    *,
    threads: int = 1,
    should_stop: Any = None,
) -> tuple[Record, bytes | None]:
    """Solve an entry from its best schedule and its prices on, and say what that found.

    Each attempt has a seed of its own.

    Parameters
    ----------
    entry : LibraryEntry
        Of the library.
    known : Record or None
        What is known.
    seconds : float
        For the solve and its certificate.
    threads : int, default 1
        Of the solve.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts the solve.

    Raises
    ------
    RefusedRecordError
        A record that does not hold.
    """
    from hindsight.solver import solve

    clock = Clock(seconds)
    attempts = 0 if known is None else known.attempts
    options: dict[str, Any] = {"seed": attempts, "threads": threads, "should_stop": should_stop}
    if known is not None:
        check_schedule(entry, known)
        options["start"] = known.schedule
    if entry.goal == "seconds":
        options["batch_time"] = preset(entry.batch_time or "").batch_time
    elif entry.goal == "makespan":
        options["objective"] = "makespan"
    else:
        options["preemptive"] = entry.goal == "preemptive_total_latency"
    if (prices := _known_prices(entry, known)) is not None:
        options["bounds"] = lambda _: prices
    instance = cast(Instance, entry.instance)
    result = solve(instance, SOLVING_SHARE * seconds, **options)
    # Whoever presses Ctrl-C waits for no better certificate than these seconds give.
    is_stopped = should_stop is not None and should_stop()
    left = LEAST_SECONDS if is_stopped else max(LEAST_SECONDS, clock.seconds_left())
    method = f"improve, {seconds:.0f} s, seed {attempts}"
    found, certificate = record_of(entry, result, known, method=method, time_limit=left)
    return found.tried(attempts + 1), certificate


def _known_prices(entry: LibraryEntry, known: Record | None) -> StatePrices | None:
    """Read the state prices that the certificate of a record has, where a solve takes them.

    Raises
    ------
    RefusedRecordError
        The certificate is malformed.
    FileFormatError
        It is none.
    """
    if known is None or known.certificate is None or entry.goal != "total_latency":
        return None
    if not known.certificate.exists():  # A wheel has records, and no certificates.
        return None
    if entry.problem.memory_rule != TOKENS:
        return None
    try:
        return state_prices_of(read_certificate(known.certificate))
    except CertificateError as error:
        raise RefusedRecordError(f"certificate: {error}") from error
