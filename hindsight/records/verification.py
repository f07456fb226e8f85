"""Verification of the records of library instances: schedule, cost, lower bound and digest.

The cost of each schedule is recomputed. A lower bound is proved by a certificate, which is checked,
or by a formula, which is evaluated again. No solver is loaded, and compiled loops are loaded only
for certificates in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hindsight.certificates.checking import check_certificate
from hindsight.certificates.format import CertificateError, read_certificate
from hindsight.outcomes.goals import exact_total_latency
from hindsight.outcomes.result import rounded_down
from hindsight.prices.deadlines import Deadlines
from hindsight.prices.machines import machine_bounds
from hindsight.prices.minorants import affine_minorants
from hindsight.prices.volume import makespan_lower_bound
from instances import Instance, LibraryEntry, Record, RecordStore, SecondsSchedule
from instances.catalogue.records import LATE, Bound
from instances.errors import FileFormatError
from instances.problem.memory_translation import pooled, relaxed
from instances.service_level import Limits, limits_of

UNCERTIFIED = ("makespan", LATE)
"""Goals for which records have no certificates: the makespan and the number of late requests."""


@dataclass(frozen=True)
class RecordVerdict:
    """Verdict on a record of the library.

    Attributes
    ----------
    name : str
        Name of the instance.
    goal : str
        Goal of the record, such as ``"total_latency"``.
    kind : str
        For a valid record ``"closed"`` if its lower and upper bound are equal, else ``"open"``;
        ``"refused"`` for a record that is not valid; ``"none"`` if there is no record.
    lower_bound, upper_bound : int or float or None
        Verified bounds on the optimum. None if the record is refused or missing.
    proof : str
        Kind of the certificate that proves the lower bound, or name of the closed-form bound (one
        computed by a formula, without a certificate).
    reason : str
        Reason why the record is refused. Empty if it is not.
    """

    name: str
    goal: str
    kind: Literal["closed", "open", "refused", "none"]
    lower_bound: Bound | None = None
    upper_bound: Bound | None = None
    proof: str = ""
    reason: str = ""


class RefusedRecordError(ValueError):
    """A record is not valid. The message gives the reason."""


def demand(holds: bool, reason: str) -> None:
    """Raise RefusedRecordError with the message ``reason`` unless ``holds`` is true."""
    if not holds:
        raise RefusedRecordError(reason)


def verify_record(entry: LibraryEntry, store: RecordStore) -> RecordVerdict:
    """Check all claims of a record.

    The instance is generated, and its digest compared with the digest in the record. The schedule
    is checked and its cost recomputed. The certificate of the lower bound is checked. If there is
    no certificate, the closed-form bound is computed.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    store : RecordStore
        Store of records, from which the record of the entry is taken.
    """
    try:
        stale = store.stale(entry)
        demand(stale is None, f"the record is of digest {stale}, the instance has {entry.digest}")
        record = store.record(entry)
        if record is None:
            return RecordVerdict(entry.name, entry.goal, "none")
        check_schedule(entry, record)
        check_bound(entry, record)
    except (RefusedRecordError, FileFormatError, MemoryError) as error:
        reason = str(error) or "its check takes more memory than this computer has"
        return RecordVerdict(entry.name, entry.goal, "refused", reason=reason)
    bounds = record.lower_bound, record.upper_bound
    return RecordVerdict(entry.name, entry.goal, record.status, *bounds, record.proof)


def check_schedule(entry: LibraryEntry, record: Record) -> None:
    """Check the schedule and the upper bound of a record.

    Raises
    ------
    RefusedRecordError
        The schedule belongs to another instance, is infeasible, or has another cost.
    """
    try:
        schedule = record.schedule
    except (TypeError, ValueError) as error:
        raise RefusedRecordError(f"the schedule is not valid: {error}") from error
    for violation in schedule.violations():
        demand(False, f"the schedule is infeasible: {violation}")
    costs, upper = cost(schedule, entry), record.upper_bound
    demand(costs == upper, f"upper bound is {upper}, the schedule has {costs}")


def check_bound(entry: LibraryEntry, record: Record) -> None:
    """Check the lower bound of a record: by its certificate, or else by a closed-form bound.

    Raises
    ------
    RefusedRecordError
        The lower bound is not proved, or the record names another kind of proof.
    """
    lower = record.lower_bound
    if record.certificate is None:
        proved, how = closed_form_bound(entry)
        reason = f"lower bound {lower} has no certificate, and by {how} it is {proved}"
    else:
        try:
            document = read_certificate(record.certificate)
            proved, how = certified_bound(entry, document)
        except (OSError, CertificateError) as error:
            reason = str(getattr(error, "strerror", error))
            raise RefusedRecordError(f"certificate: {reason}") from error
        reason = f"lower bound is {lower}, its certificate proves {proved}"
    demand(lower <= proved, reason)
    demand(how == record.proof or lower < proved, f"the proof is {how}, not {record.proof}")


def certified_bound(entry: LibraryEntry, document: dict[str, object]) -> tuple[Bound, str]:
    """Return the lower bound that a certificate proves for an entry, and the kind of proof.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    document : dict[str, object]
        The certificate, as `hindsight.read_certificate` returns it.

    Raises
    ------
    RefusedRecordError
        The certificate belongs to another instance or another optimum.
    CertificateError
        The certificate does not prove its claims.
    """
    demand(entry.goal not in UNCERTIFIED, f"there are no certificates for {entry.goal}")
    verdict = check_certificate(document)
    demand(verdict.digest == entry.digest, "the certificate is for another instance")
    # A lower bound for schedules that may stop requests also holds for schedules that may not.
    covers = verdict.preemptive or entry.goal != "preemptive_total_latency"
    demand(covers, "the certificate is for the optimum without preemption")
    is_timed = verdict.batch_time == entry.instance.batch_time
    demand(is_timed, "the certificate is for another batch time")
    return verdict.lower_bound, verdict.kind


def cost(schedule: Any, entry: LibraryEntry) -> Bound:
    """Recompute the cost of a schedule for the goal of an entry.

    The cost is the number of late requests if the entry has a service level, else the makespan or
    the total latency. It is an int, except for a total latency in seconds, which is rounded up to a
    float.
    """
    if entry.level is not None:
        return int((~schedule.on_time(entry.level)).sum())
    if isinstance(schedule, SecondsSchedule):
        exact = exact_total_latency(schedule)
        return schedule.total_latency if exact is None else -rounded_down(-exact)
    return int(schedule.makespan if entry.goal == "makespan" else schedule.total_latency)


def closed_form_bound(entry: LibraryEntry) -> tuple[Bound, str]:
    """Compute a lower bound on the cost that needs no certificate. Return the bound and its name.

    The bound depends on the goal of the entry:

    - total latency in rounds: the sum of output lengths;
    - makespan: the volume bound (`hindsight.prices.volume.makespan_lower_bound`). If that is 2
      rounds, it is raised to 3 unless the requests fit into two rounds (`fits_two_rounds`);
    - total latency in seconds: the best bound of `hindsight.prices.machines`, rounded down to a
      float (all other bounds are of type int);
    - number of late requests: the number of those that are late even alone on the machine. In
      rounds, `late_by_volume` adds further ones.
    """
    instance = entry.instance
    limits = None if entry.level is None else limits_of(entry.level, entry.n)
    if not isinstance(instance, Instance):
        if limits is not None:
            # ``known`` has one array for each minorant (affine lower bound on the batch time). Its
            # entry is 1 for a request that is late even alone on the machine if rounds are no
            # longer than the minorant.
            minorants = affine_minorants(instance.batch_time, instance.memory_limit)
            known = [Deadlines.of(instance, one, limits, math.inf).known for one in minorants]
            return max(int((late == 1).sum()) for late in known), "requests late alone"
        bounds = machine_bounds(instance, instance.batch_time)
        best = max(bounds, key=bounds.__getitem__)
        return rounded_down(bounds[best]), best
    if limits is not None:
        return late_by_volume(instance, limits), "volume"
    if entry.goal != "makespan":
        return instance.total_output_length, "output lengths"
    tokens = relaxed(instance)
    bound = makespan_lower_bound(tokens)
    if bound == 2 and not fits_two_rounds(tokens):
        return 3, "no two rounds hold them all"
    return bound, "volume"


def late_by_volume(instance: Instance, limits: Limits) -> int:
    """Return a lower bound on the number of late requests of an instance in rounds.

    It is the number of requests that are late even alone on the machine, plus the largest number,
    over all rounds t and d, of further requests that are late because of their volumes. The volume
    of a request is its memory in tokens, summed over its rounds.

    Take the requests that arrive at round t or later and have to end by round d to be on time.
    Those of them that are on time run in rounds t + 1 .. d, which hold at most M tokens each, with
    M the memory limit of all replicas together. So their total volume is at most M (d - t). Let k
    be the largest number such that the k smallest volumes of the requests taken sum to at most M (d
    - t). Then at most k of these requests are on time, and the others are late.
    """
    outputs = instance.output_lengths
    able = np.flatnonzero(limits.on_time(outputs, np.ones_like(outputs), outputs))
    if not len(able):
        return len(instance)
    some = pooled(instance.of(able))
    arrivals, late = some.arrival_times, 0
    # A request runs without pause, so its last token comes ``outputs`` - 1 rounds after its first
    # one. So a limit on the time to the first token also limits the latency.
    latency = np.minimum(limits.latency, limits.first_token + outputs - 1)
    end_of_all = int(instance.arrival_times.max() + outputs.sum())
    ends = arrivals + np.floor(np.minimum(latency[able], end_of_all)).astype(np.int64)
    for begin in np.unique(arrivals).tolist():
        for end in np.unique(ends).tolist():
            volumes = np.sort(some.volumes[(arrivals >= begin) & (ends <= end)])
            # Use Python integers: sums of volumes, and memory limit times number of rounds, may
            # need more than 64 bits.
            held = volumes.astype(object).cumsum()
            late = max(late, int((held > some.memory_limit * (end - begin)).sum()))
    return len(instance) - len(able) + late


def fits_two_rounds(instance: Instance) -> bool:
    """Return whether all requests fit into two rounds, if each runs one round and arrives at 0.

    They fit if and only if some subset of them and its complement each hold at most M tokens, the
    memory limit. Bit j of an integer marks that some subset holds j tokens in total. Return True
    also if the test does not apply because a request runs longer or arrives later.
    """
    if instance.arrival_times.any() or (instance.output_lengths > 1).any():
        return True
    limit, total = instance.memory_limit, int(instance.peak_memories.sum())
    sums, kept = 1, (1 << limit + 1) - 1
    for peak in instance.peak_memories.tolist():
        sums |= sums << peak & kept
    return sums >> max(0, total - limit) != 0
