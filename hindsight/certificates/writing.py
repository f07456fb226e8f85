"""Writing of certificates: small files that prove bounds and can be checked without a solver.

A certificate holds the instance (rows and digest), a schedule and a proof of a lower bound, all in
integers; the format is described in docs/certificates.md. `hindsight.certificates.checking` checks
certificates without this module and without any solver. `write_certificate` runs that checker on
the document before it writes the file, and claims exactly the bound that the checker confirms.

No proof is trusted: the checker decides. The certificate gets the proof with the best bound among

* the *proof* of the solve, whose class defines its form (`hindsight.outcomes.proofs`): prices of
  memory or of states, graphs of *paths* (`hindsight.certificates.path_proof`), or, for a schedule
  that may stop requests, prices of numbers of tokens in each round;
* a *state search* (`hindsight.certificates.replay`): the exhaustive search of the checker. It is
  run here first, to test that it ends within `SEARCH_STATES`.

A certificate of a bound on latency in seconds gets the rounded prices of machine time that the
solve found. They are evaluated on several time grids, and the grid with the best bound is kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from hindsight.outcomes.proofs import NO_PRICES, Proof
from hindsight.outcomes.result import Result, rounded_down
from hindsight.prices.minorants import affine_minorants
from hindsight.prices.round_lengths import SecondsProof
from hindsight.prices.tokens import round_prices
from hindsight.prices.volume import fill_by_volume, filling_prices
from hindsight.runtime.clock import Clock
from instances import FleetSchedule, Instance, PreemptiveSchedule, Schedule, Workload
from instances.arrays import FloatArray
from instances.batch_time import AffineTime, TiledTime
from instances.batch_time.presets import batch_time_document
from instances.errors import InvalidTypeError, InvalidValueError
from instances.files import write_atomically
from instances.problem.memory_translation import pooled, relaxed
from instances.problem.schedule import TimedSchedule
from instances.validation import as_time_limit

from . import seconds_proof
from .checking import check_certificate, read_proof
from .format import FORMAT, VERSION, CertificateError, CertificateTooLargeError, Verdict
from .limits import LARGEST_WORK
from .problem import instance_part
from .proofs import SearchFailedError

SEARCH_STATES = 500_000
"""Largest number of partial schedules in a certificate's search. Checking them takes a minute."""

BITS = 16
"""Bits to which the largest price of a certificate in seconds is rounded. Bounds lose <= 0.01 %."""

WORK_PER_SECOND = 2 * 10**8
"""Number of array entries visited in about one second by the check of a bound in seconds."""

CHECK_SHARE = 1 / 3
"""Largest share of the time limit of `make_certificate` for checking a proof on one time grid."""


def make_certificate(
    schedule: TimedSchedule,
    proof: Proof | SecondsProof | None = None,
    *,
    search: bool = True,
    time_limit: float | None = None,
) -> dict[str, Any]:
    """Make a certificate of a schedule and a lower bound, as a dictionary ready for JSON.

    The cost is the total latency of the requests in the schedule. The schedule of a solve for
    `OnTime` has only the requests on time, and a certificate says nothing about the others.

    Parameters
    ----------
    schedule : TimedSchedule
        The best known schedule, feasible under the memory rule of its instance. For a
        `PreemptiveSchedule`, the lower bound is on the preemptive optimum and comes from prices
        alone, even if a state search proved a larger one. For a `SecondsSchedule`, the certificate
        has the requests and the batch time, but not the schedule. For a `FleetSchedule` in rounds,
        the proofs are about the pooled instance: one machine with the memory of all replicas
        (`instances.problem.memory_translation.pooled`).
    proof : Proof or SecondsProof or None, default None
        Proof for the instance of the schedule (for a fleet, the pooled instance) and for the same
        optimum. None means the prices of the relaxation in which each round serves any M tokens of
        memory, with M the memory limit, or, in seconds, bounds without prices.
    search : bool, default True
        Whether to try a state search (exhaustive search over partial schedules) if prices alone do
        not prove the schedule optimal. It is possible only if ``proof`` has prices of the states of
        requests.
    time_limit : float or None, default None
        Seconds for all steps including the check. None for no limit. Proofs that would take longer
        are replaced by cheaper ones, finally by the sum of output lengths. For a `SecondsSchedule`
        the limit decides how fine the time grid is.

    Raises
    ------
    InvalidValueError
        The schedule is infeasible, or the proof is not for the optimum (with preemption, without
        it, in seconds) that the schedule is for.
    InvalidTypeError
        The batch time of a `SecondsSchedule` is neither an `AffineTime` nor a `TiledTime`.
    """
    time_limit = as_time_limit(time_limit)
    for violation in schedule.violations():
        raise InvalidValueError(None, "schedule", schedule, f"is infeasible: {violation}")
    # In rounds, the bound of the certificate is on the preemptive optimum if the schedule is one
    # that may stop requests (on a fleet, if the schedule of some machine is).
    preemptive = any(isinstance(part, PreemptiveSchedule) for part in schedule.machines)
    if isinstance(schedule.problem, Workload):
        if proof is None or isinstance(proof, SecondsProof):
            return _in_seconds(schedule.problem, proof, time_limit)
    elif proof is None or (isinstance(proof, Proof) and preemptive in proof.optima):
        return _in_rounds(schedule, proof, preemptive, search=search, time_limit=time_limit)
    raise InvalidValueError(None, "proof", type(proof).__name__, "is for another optimum")


def _in_rounds(
    schedule: Any, proof: Proof | None, preemptive: bool, *, search: bool, time_limit: float | None
) -> dict[str, Any]:
    """Make a certificate of a schedule in rounds and a lower bound (see `make_certificate`)."""
    instance = schedule.problem
    if preemptive:
        instance.refuse_weights("is not 1: the preemptive optimum counts every request alike")
    # Proofs are about a relaxed instance in tokens. `fleet` is this instance with its replicas.
    # `machine` is this instance with one machine that has the memory of all replicas.
    fleet, machine = relaxed(instance), pooled(instance)
    document: dict[str, Any] = {
        **_head(instance),
        **_schedule_part(schedule, preemptive),
        "upper_bound": schedule.total_latency,
        "proof": NO_PRICES.to_part(machine, preemptive=preemptive),
    }
    document["lower_bound"] = read_proof(document).bound()
    clock, states = _ProofClock(time_limit), None
    volume = round_prices(filling_prices(fill_by_volume(machine)), machine)
    for step in (volume, *(() if proof is None else proof.steps)):
        part = step.to_part(fleet, preemptive=preemptive)
        states = part if part["kind"] == "state-prices" else states
        _take_best(document, part, clock)
    if search and states is not None and document["lower_bound"] < document["upper_bound"]:
        budget = document["upper_bound"] - 1
        part = {**states, "kind": "state-search", "budget": budget, "kept": SEARCH_STATES}
        _take_best(document, part, clock)
    return document


def _head(problem: Instance | Workload) -> dict[str, Any]:
    """Return the JSON parts that every certificate begins with: format, version and instance."""
    return {"format": FORMAT, "version": VERSION, "instance": instance_part(problem)}


def _schedule_part(schedule: Any, preemptive: bool) -> dict[str, Any]:
    """Return the JSON parts of a schedule: start times or stretches, and replica of each request.

    With ``preemptive``, there are stretches: runs of a request without pause, given by their first
    and last rounds. Replicas are given if there are several.
    """
    instance = schedule.problem
    parts = [(np.arange(len(instance)), schedule)]
    if isinstance(schedule, FleetSchedule):
        parts = [*zip(schedule.positions, schedule.parts, strict=True)]
    key = "stretches" if preemptive else "start_times"
    column: list[Any] = [None] * len(instance)
    for own, part in parts:
        if preemptive and isinstance(part, Schedule):
            part = PreemptiveSchedule.from_schedule(part)
        for k, one in zip(own.tolist(), getattr(part, key, ()), strict=True):
            column[k] = [list(stretch) for stretch in one] if preemptive else int(one)
    document: dict[str, Any] = {key: column}
    if instance.replicas > 1:
        document["assignment"] = schedule.assignment.tolist()
    return document


class _ProofClock(Clock):
    """Clock of `make_certificate`, which reserves time for the final check of the certificate."""

    reserve = begun = 0.0

    def must_stop(self) -> bool:
        """Return whether the remaining time is too short for the final check of the certificate.

        This check is expected to take as long as the check of the best proof so far, or as the time
        spent on the current proof, whichever is longer.
        """
        return self.seconds_left() < max(self.reserve, self.seconds() - self.begun)


def _take_best(document: dict[str, Any], part: dict[str, Any], clock: _ProofClock) -> None:
    """Put a proof into a certificate if it proves a larger bound than the certificate claims.

    ``part`` is the proof, as JSON. ``document`` is the certificate, which then claims this bound.
    A proof whose check fails, or exceeds the limits of the checker or the remaining time, is not
    used.
    """
    clock.begun = clock.seconds()
    proof = read_proof({**document, "proof": part})
    proof.should_stop = clock.must_stop
    with contextlib.suppress(CertificateTooLargeError, SearchFailedError):
        bound = proof.bound()
        if bound > document["lower_bound"]:
            # The final check of the certificate, when it is written, repeats this check of the
            # proof. Reserve the time that it took.
            clock.reserve = clock.seconds() - clock.begun
            kept = {"kept": proof.leaves} if "kept" in part else {}
            document["proof"], document["lower_bound"] = {**part, **kept}, bound


def _in_seconds(
    workload: Workload, proof: SecondsProof | None, time_limit: float | None
) -> dict[str, Any]:
    """Make a certificate of a lower bound on the total latency of a workload, in seconds.

    The bound is the best one of those from the prices of ``proof``, if it is given, and those from
    `hindsight.prices.machines`, which need no prices. The prices are evaluated on finer and finer
    time grids, as long as a check is estimated to take at most `CHECK_SHARE` of ``time_limit``.

    Raises
    ------
    InvalidTypeError
        The batch time is of a type that cannot be stored in a file.
    CertificateTooLargeError
        The requests have so many output tokens that the check would exceed `LARGEST_WORK`.
    InvalidValueError
        ``proof`` is for another number of requests or another batch time than ``workload``.
    """
    batch_time = workload.batch_time
    if not isinstance(batch_time, AffineTime | TiledTime):
        reason = "has no certificate: files hold an AffineTime or a TiledTime"
        raise InvalidTypeError(None, "batch_time", batch_time, reason)
    best: dict[str, Any] = {"kind": seconds_proof.MACHINE}
    bound = seconds_proof.proved_seconds(workload, batch_time, best, LARGEST_WORK)
    limit = math.inf if time_limit is None else CHECK_SHARE * time_limit * WORK_PER_SECOND
    work = min(LARGEST_WORK, limit)
    minorants = affine_minorants(batch_time, workload.memory_limit)
    if proof and (proof.minorant not in minorants or len(proof.allowance) != len(workload)):
        reason = "is for other requests or another batch time"
        raise InvalidValueError(None, "proof", type(proof).__name__, reason)
    for part in () if proof is None else _on_grids(proof, minorants.index(proof.minorant)):
        try:
            proved = seconds_proof.proved_seconds(workload, batch_time, part, work)
        except CertificateError:
            # The check takes too much work, or arrival times are too late to be rounded to this
            # time grid. Both hold for all finer grids too.
            break
        if proved > bound:
            best, bound = part, proved
    document = {"batch_time": batch_time_document(batch_time), "lower_bound": rounded_down(bound)}
    return {**_head(workload), **document, "proof": best}


def _on_grids(proof: SecondsProof, minorant: int) -> Iterator[dict[str, Any]]:
    """Yield the JSON part ``"proof"`` of a certificate for each time grid that a solve uses.

    The grids come from the coarsest to the finest. ``minorant`` is the position, in the list that
    `affine_minorants` returns, of the affine lower bound on the batch time that the proof uses.
    """
    from hindsight.seconds.solving import grids

    prices = proof.prices
    # Round prices to multiples of 1 / scale. The largest price is then at most 2^BITS / scale.
    scale = 2 ** max(0, BITS - math.frexp(float(prices.price.max()))[1])
    units, (attendance, (first, after, levels)) = seconds_proof.SHARE_UNITS, prices.participation
    rows = np.split(levels, np.cumsum(after - first)[:-1])
    for step, block in grids(proof.minorant, prices):
        yield {
            "kind": seconds_proof.PRICES,
            "scale": scale,
            "minorant": minorant,
            "cell": prices.cell,
            "prices": _wholes(prices.price * scale),
            "gammas": _wholes(prices.gamma * units),
            "attendances": _wholes(attendance * units),
            "firsts": first.tolist(),
            "levels": [*map(_wholes, rows)],
            "step": step,
            "block": block,
            "allowances": _wholes(np.ceil(proof.allowance / prices.cell)),
        }


def _wholes(numbers: FloatArray) -> Any:
    """Return numbers rounded to integers, as lists."""
    return np.rint(numbers).astype(np.int64).tolist()


def bound_of_prices(instance: Instance, proof: Proof, *, preemptive: bool = False) -> int:
    """Compute the lower bound on total latency that prices prove, by the code of the checker.

    Parameters
    ----------
    instance : Instance
        An instance whose memory is counted in tokens.
    proof : Proof
        Any prices. Wrong prices prove a weak bound, never a false one.
    preemptive : bool, default False
        Whether the bound must hold for schedules that may stop requests.

    Raises
    ------
    InvalidValueError
        The prices are not for the optimum that ``preemptive`` names, have a wrong shape, or exceed
        the limits of the checker.
    """
    instance.require_tokens()
    proof.check_shape(instance)
    if preemptive not in proof.optima:
        raise InvalidValueError(None, "prices", type(proof).__name__, "are for another optimum")
    part = proof.to_part(instance, preemptive=preemptive)
    try:
        return read_proof({"instance": instance_part(instance), "proof": part}).bound()
    except CertificateError as error:
        raise InvalidValueError(None, "prices", type(proof).__name__, str(error)) from None


def write_certificate(
    result: Result,
    path: str | os.PathLike[str],
    *,
    search: bool | None = None,
    time_limit: float | None = None,
) -> Verdict:
    """Certify the result of `hindsight.solve`, check the certificate and write it.

    The lower bound of the result is *verified*: the checker has confirmed its proof. It may be
    below ``result.certified_lower_bound`` if that bound comes from an exhaustive search by other
    rules, or from a solve that had no time for prices. No search is written for the preemptive
    optimum. In seconds, the verified bound may also be smaller because prices are rounded and the
    time grid is coarser.

    Parameters
    ----------
    result : Result
        Result of a solve for total latency, in rounds or seconds.
    path : str or os.PathLike
        Path of the JSON file, which is replaced as a whole.
    search : bool or None, default None
        See `make_certificate`. None means True if the solve proved optimality.
    time_limit : float or None, default None
        Seconds for making the certificate (see `make_certificate`).

    Returns
    -------
    Verdict
        The bounds that the checker has confirmed for the written certificate.

    Raises
    ------
    InvalidTypeError
        ``result`` is not a `Result`, or its batch time is of a type that cannot be stored in a
        file.
    InvalidValueError
        The result is of a solve for another goal than total latency.
    OSError
        The file cannot be written; no partial file is left.
    """
    if not isinstance(result, Result):
        raise InvalidTypeError(None, "result", result, "is not a Result")
    if result.goal != "latency":
        raise InvalidValueError("result", "goal", result.goal, "is not 'latency'")
    search = result.status == "optimal" if search is None else search
    document = make_certificate(result.schedule, result.proof, search=search, time_limit=time_limit)
    verdict = check_certificate(document)
    write_atomically(path, json.dumps(document, separators=(",", ":")) + "\n")
    return verdict
