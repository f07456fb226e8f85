"""The JSON format of certificates: reading a file, and validating the form of its parts."""

from __future__ import annotations

import lzma
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instances import FileFormatError
from instances.batch_time import BatchTime
from instances.files import parse_json

from . import limits

FORMAT = "llm-hindsight/certificate"
VERSION = 1

LIMIT = 2**62
"""All integers read from a certificate, and all int64 sums of them, must be below this limit."""

TOO_MUCH_WORK = "proof: its check takes more work than this checker does"
"""Error message for a proof whose check would visit too many array entries."""

XZ_MAGIC = b"\xfd7zXZ\x00"
"""First bytes of a file compressed with xz."""


class CertificateError(ValueError):
    """The certificate does not prove its claims. The message gives the reason."""


class MalformedCertificateError(CertificateError):
    """The certificate does not follow the file format, so that no claim can be checked."""


class CertificateTooLargeError(MalformedCertificateError):
    """The check would take more time or memory than `hindsight.certificates.limits` allows."""


@dataclass(frozen=True)
class Verdict:
    """Bounds that a certificate proves, as checked, and facts about its proof.

    Attributes
    ----------
    lower_bound : int or float
        Verified lower bound: no feasible schedule has a smaller total latency. In rounds, or in
        seconds if there is a ``batch_time``.
    upper_bound : int or None
        Total latency, in rounds, of the schedule of the certificate, which is feasible. None in
        seconds, where certificates have no schedule.
    kind : str
        Kind of the proof: ``"memory-prices"``, ``"state-prices"``, ``"state-search"`` or
        ``"path-search"``. For the preemptive optimum: ``"preemptive-memory-prices"`` or
        ``"preemptive-prices"``. In seconds: ``"round-length-prices"`` or ``"machine-bounds"``.
    requests : int
        Number of requests.
    leaves : int
        Number of partial schedules that a ``"state-search"`` keeps, or of nodes in the graphs of a
        ``"path-search"``; 0 for other kinds of proofs.
    digest : str
        Digest of the instance: a hash by which two instances are compared.
    preemptive : bool
        Whether the certificate is about schedules that may preempt requests, where a preempted
        request keeps its tokens. If so, the lower bound holds for these schedules too, and the
        schedule of the certificate may be one of them.
    memory_rule : str
        Words that say how the memory rule of the instance differs from counting tokens. Empty if
        the rule counts tokens. Otherwise the proof is about a relaxed instance that counts tokens:
        every feasible schedule of the original instance is feasible for the relaxed one.
    batch_time : BatchTime or None
        Time of a round, if the bound is in seconds.
    replicas : int
        Number of machines of the instance. If the bound is in rounds, the proof is about one
        machine with the memory of all of them.
    """

    lower_bound: int | float
    upper_bound: int | None
    kind: str
    requests: int
    leaves: int
    digest: str
    preemptive: bool = False
    memory_rule: str = ""
    batch_time: BatchTime | None = None
    replicas: int = 1

    @property
    def is_optimal(self) -> bool:
        """Return whether the lower and upper bound are equal, so that the schedule is optimal."""
        return self.lower_bound == self.upper_bound


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a certificate from a JSON file, which may be compressed with xz.

    Of its content, only the values of the keys ``format`` and ``version`` are checked.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file is not JSON, not a certificate, of another version, or too large.
    """
    with open(path, "rb") as stream:
        content = stream.read(limits.LARGEST_FILE + 1)
    if content.startswith(XZ_MAGIC):
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, limits.XZ_MEMORY)
        try:
            content = decompressor.decompress(content, limits.LARGEST_FILE + 1)
        except lzma.LZMAError as error:
            raise FileFormatError(path, f"is not compressed by xz: {error}") from error
        if not decompressor.eof and len(content) <= limits.LARGEST_FILE:
            raise FileFormatError(path, "is cut off: the end of the xz data is missing")
        if decompressor.unused_data:
            raise FileFormatError(path, "goes on after the end of the xz data")
    if len(content) > limits.LARGEST_FILE:
        raise FileFormatError(path, f"is larger than {limits.LARGEST_FILE} bytes")
    document = parse_json(content, path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(path, f"is not a certificate: its format is not {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise FileFormatError(path, f"version is {shown(version)}; this release reads {VERSION}")
    return document


def demand(
    holds: bool, reason: str, error: type[CertificateError] = MalformedCertificateError
) -> None:
    """Raise ``error`` with the message ``reason`` if ``holds`` is false."""
    if not holds:
        raise error(reason)


def refuse_above(most: float, value: float, reason: str) -> None:
    """Raise CertificateTooLargeError with the message ``reason`` if ``value`` exceeds ``most``."""
    # The condition is not ``value > most``, because that is false if ``value`` is NaN. NaN must be
    # refused too.
    if not value <= most:
        raise CertificateTooLargeError(reason)


def keys_of(part: Any, names: Sequence[str], where: str, *, optional: Sequence[str] = ()) -> None:
    """Check that a part of a certificate is a JSON object with the right keys.

    It must have all keys ``names``, and may have the keys ``optional`` and no others. Error
    messages begin with ``where``, the name of the part.
    """
    demand(isinstance(part, Mapping), f"{where} is not a JSON object")
    for name in names:
        demand(name in part, f"{where}: {name!r} is missing")
    for name in part:
        demand(name in names or name in optional, f"{where}: unknown key {shown(name)}")


def list_of(value: Any, where: str, count: int | None = None) -> list[Any]:
    """Return the value if it is a list.

    The list must have ``count`` entries, or any number of them if ``count`` is None. Any other
    value raises MalformedCertificateError, with a message that begins with ``where``.
    """
    if not isinstance(value, list):
        raise MalformedCertificateError(f"{where} is not a list")
    demand(count in (None, len(value)), f"{where}: {len(value)} entries, not {count}")
    return value


def whole(value: Any, where: str, minimum: int = 0) -> int:
    """Return the value if it is an integer from ``minimum`` to `LIMIT` - 1.

    Any other value, even True or 1.0, raises MalformedCertificateError, with a message that begins
    with ``where``.
    """
    if type(value) is not int:
        raise MalformedCertificateError(f"{where}: {shown(value)} is not a whole number")
    demand(value >= minimum, f"{where}: {shown(value)} is below {minimum}")
    refuse_above(LIMIT - 1, value, f"{where}: {shown(value)} is too large")
    return value


def wholes(value: Any, where: str, count: int | None = None, minimum: int = 0) -> list[int]:
    """Return the value if it is a list of ``count`` integers, each of which passes `whole`.

    If ``count`` is None, the list may have any length. Any other value raises
    MalformedCertificateError, with a message that begins with ``where``.
    """
    entries = list_of(value, where, count)
    if {*map(type, entries)} == {int} and min(entries) >= minimum and max(entries) < LIMIT:
        return [*entries]
    return [whole(entry, where, minimum) for entry in entries]


def shown(value: Any) -> str:
    """Format a value of a certificate for an error message, in at most 40 characters."""
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'JSON object'}"
    if type(value) is int and abs(value) >= 10**20:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
