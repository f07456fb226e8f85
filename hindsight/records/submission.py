"""Submissions to the records: schedules, certificates and solutions, checked before they count."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from dataclasses import replace
from typing import Any

from hindsight.certificates.format import FORMAT as CERTIFICATE_FORMAT
from hindsight.certificates.format import (
    XZ_MAGIC,
    CertificateError,
    MalformedCertificateError,
    certificate_in,
)
from instances import (
    FleetSchedule,
    Instance,
    LibraryEntry,
    PreemptiveSchedule,
    Record,
    RecordStore,
    Schedule,
    known_bounds,
)
from instances.catalogue.library import library
from instances.catalogue.records import lacks_certificate
from instances.errors import FileFormatError, InvalidValueError
from instances.files import parse_json, read_bytes
from instances.problem.json_io import FORMAT as INSTANCE_FORMAT
from instances.problem.json_io import SCHEDULE_FORMAT, from_document, schedule_from
from instances.problem.preemptive_schedule import AnySchedule
from instances.validation import as_name

from .improvement import Gain, compressed
from .verification import (
    UNCERTIFIED,
    RefusedRecordError,
    certified_bound,
    check_bound,
    check_schedule,
    checked_record,
    closed_form_bound,
)


def submit(
    path: str | os.PathLike[str],
    store: RecordStore,
    entry: LibraryEntry | None = None,
    *,
    by: str | None = None,
) -> list[Gain]:
    """Check a submitted file, and take what improves a record.

    Three kinds of files name their library instances by digest: a schedule from
    `instances.save_schedule`, an instance with known bounds (of which only the schedule counts),
    and a certificate. Any other file is read as another solver's solution of the model of ``entry``
    (`hindsight.export_model`).

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    store : RecordStore
        Store of the old and the new records.
    entry : LibraryEntry or None, default None
        The instance; required for a solution, and compared with the digest of other files.
    by : str or None, default None
        Name of the submitter, stored with the record.

    Returns
    -------
    list[Gain]
        One for each library instance that the file concerns; see their ``improves``.

    Raises
    ------
    OSError
        The file cannot be read, or the store cannot be written.
    FileFormatError
        The file has none of these formats.
    InvalidValueError, InvalidTypeError
        ``by`` is empty, or a value in the file does not fit its format.
    RefusedRecordError
        The schedule is infeasible, the certificate does not hold, or its instance is not in the
        library; or the known record does not hold.
    """
    if by is not None and not as_name(by, None, "by").strip():
        raise InvalidValueError(None, "by", by, "names nobody")
    method = "submitted" if by is None else f"submitted by {by}"
    # Read only once: the file may be a pipe.
    content = read_bytes(path, XZ_MAGIC)
    is_json = content.removeprefix(BOM_UTF8).lstrip()[:1] == b"{"
    document = parse_json(content, path) if is_json else {}
    kind = document.get("format")
    if content.startswith(XZ_MAGIC) or kind == CERTIFICATE_FORMAT:
        found = _of_certificate(certificate_in(content, path), path, store, entry, method)
    elif kind == SCHEDULE_FORMAT:
        found = _of_schedule(schedule_from(document, path), store, entry, method)
    elif kind == INSTANCE_FORMAT:
        found = _of_schedule(_carried_schedule(document, path), store, entry, method)
    elif is_json:
        told = f"but {str(kind)!r}" if kind else "and names no format"
        raise FileFormatError(path, f"is neither a schedule nor a certificate, {told}")
    else:
        found = _of_solution(content, path, store, entry, method)
    return found


def _carried_schedule(document: Any, path: str | os.PathLike[str]) -> Schedule:
    instance = from_document(document, os.fspath(path))
    try:
        known = known_bounds(instance)
    except InvalidValueError as error:
        raise RefusedRecordError(str(error)) from error
    if known is None or known.start_times is None:
        raise FileFormatError(path, "is an instance, and no schedule is among its known bounds")
    return Schedule(instance, known.start_times)


def _entries(digest: str, entry: LibraryEntry | None) -> list[LibraryEntry]:
    of_it = [one for one in library() if one.digest == digest]
    if entry is not None:
        of_it = [one for one in of_it if one.name == entry.name]
    if not of_it:
        if entry is not None:
            reason = f"and {entry.name} has {entry.digest[:16]}"
        else:
            reason = "which no instance of the library has"
        raise RefusedRecordError(f"it is of digest {digest[:16]}, {reason}")
    return of_it


def _of_schedule(
    schedule: AnySchedule | FleetSchedule,
    store: RecordStore,
    entry: LibraryEntry | None,
    method: str,
) -> list[Gain]:
    gains = []
    for one in _entries(schedule.instance.digest, entry):
        suited = _suited(schedule, one)
        if suited is None:
            continue
        found = checked_record(one, suited, *closed_form_bound(one), method)
        gains.append(_taken(one, store, _known(one, store), found, None))
    if not gains:
        raise RefusedRecordError("a schedule of this kind is none of the instance's goal")
    return gains


def _suited(schedule: AnySchedule | FleetSchedule, entry: LibraryEntry) -> AnySchedule | None:
    """Return the schedule in the form that an entry's goal needs, or None if it does not suit."""
    instance = entry.instance
    if not isinstance(instance, Instance) or isinstance(schedule, FleetSchedule):
        return None
    if entry.goal == "preemptive_total_latency":
        if isinstance(schedule, PreemptiveSchedule):
            return PreemptiveSchedule(instance, schedule.stretches)
        rounds = zip(schedule.start_times.tolist(), instance.output_lengths.tolist(), strict=True)
        return PreemptiveSchedule(instance, [[[t + 1, t + o]] for t, o in rounds])
    if isinstance(schedule, PreemptiveSchedule):
        return None
    return Schedule(instance, schedule.start_times)


def _of_certificate(
    document: dict[str, Any],
    path: str | os.PathLike[str],
    store: RecordStore,
    entry: LibraryEntry | None,
    method: str,
) -> list[Gain]:
    instance = document.get("instance")
    digest = instance.get("digest") if isinstance(instance, dict) else None
    # The schedule in a certificate counts like one submitted by itself.
    gains = []
    for one in _entries(str(digest), entry):
        if one.goal in UNCERTIFIED:
            continue
        try:
            lower, proof = certified_bound(one, document)
        except MalformedCertificateError as error:
            raise FileFormatError(path, str(error)) from error
        except CertificateError as error:
            raise RefusedRecordError(f"the certificate does not hold: {error}") from error
        except RefusedRecordError:
            if entry is not None:
                raise
            continue
        known = _known(one, store)
        # A certificate in seconds has no schedule.
        carried = None if one.goal == "seconds" else _schedule_in(document, one)
        schedule = None if carried is None else _suited(carried, one)
        if schedule is not None:
            found = checked_record(one, schedule, lower, proof, method)
        elif known is None:
            raise RefusedRecordError(f"{one.name} has no schedule yet, and this is none for it")
        else:
            own = checked_record(one, known.schedule, lower, proof, method)
            found = replace(own, found=known.found)
        gains.append(_taken(one, store, known, found, compressed(document)))
    if not gains:
        raise RefusedRecordError("no instance of the library has the goal that it is about")
    return gains


def _schedule_in(document: dict[str, Any], entry: LibraryEntry) -> AnySchedule:
    if "stretches" in document:
        return PreemptiveSchedule(entry.problem, document["stretches"])
    return Schedule(entry.problem, document["start_times"])


def _of_solution(
    content: bytes,
    path: str | os.PathLike[str],
    store: RecordStore,
    entry: LibraryEntry | None,
    method: str,
) -> list[Gain]:
    """Take the solution file of another solver."""
    if entry is None:
        raise FileFormatError(
            path, "is not JSON and does not name its instance: give it (--instance NAME)"
        )
    from hindsight.integer_program.solution_files import RefusedSolutionError, solution_in

    if entry.level is not None or not isinstance(entry.instance, Instance):
        raise RefusedRecordError(
            f"{entry.name}: solution files are read for schedules in rounds that serve everybody"
        )
    try:
        schedule = solution_in(content, path, entry.problem)
    except RefusedSolutionError as error:
        raise RefusedRecordError(str(error)) from error
    return _of_schedule(schedule, store, entry, method)


def _known(entry: LibraryEntry, store: RecordStore) -> Record | None:
    """Read and check the known record, since a wrong one would refuse correct submissions.

    A bound whose certificate is not installed is taken as it is.
    """
    known = store.record(entry)
    if known is not None:
        try:
            check_schedule(entry, known)
            if not lacks_certificate(known):
                check_bound(entry, known)
        except RefusedRecordError as error:
            raise RefusedRecordError(
                f"the record known of {entry.name} does not hold: {error}"
            ) from error
    return known


def _taken(
    entry: LibraryEntry,
    store: RecordStore,
    known: Record | None,
    found: Record,
    certificate: bytes | None,
) -> Gain:
    # Then one of two things that were checked is wrong, or the checker is.
    if known is not None and known.contradicts(found):
        raise RefusedRecordError(
            f"its bounds {found.interval} contradict those known, {known.interval}"
        )
    told = f"a schedule of {found.upper_bound}"
    if certificate is not None:
        told = f"a certificate of {found.interval}"
    gain = Gain(entry, known, found if known is None else known.merged(found), told)
    if not gain.improves:
        return gain
    return replace(gain, after=store.put(found, certificate))
