"""Limits of the checker that the tight documents need; run as a program it writes them again."""

from __future__ import annotations

import json
import re

from documents import (
    FILE,
    IN_ROUNDS,
    NAMES,
    PRICES,
    TIGHT,
    enlarged,
    part_of,
    prices_of,
    proved,
    tight,
)

from hindsight import CertificateError, CertificateTooLargeError, check_certificate
from hindsight.certificates import limits


def least_limits(name: str) -> dict[str, int]:
    """The least value of each limit with which a document of the table passes, where it counts."""
    document, found = tight(name), {}
    for limit in sorted(limit for limit in vars(limits) if re.match("[A-Z]+EST_|MOST_", limit)):
        most = getattr(limits, limit)
        refused, passes, value = -1, most, 0
        try:
            while passes - refused > 1:
                setattr(limits, limit, value)
                try:
                    check_certificate(document)
                    passes = value
                except (CertificateTooLargeError, ZeroDivisionError):
                    refused = value
                value = (refused + passes) // 2
        finally:
            setattr(limits, limit, most)
        if passes > 0:
            found[limit] = passes
    return found


def first_too_large(name: str) -> dict[str, int]:
    """The least k for which 2^k times the prices, their scale or both are more than are taken."""
    found = {}
    is_priced = any(part_of(tight(name), path) for path in prices_of(tight(name)))
    for how in ("scale", "both", *(["prices"] if is_priced and name.startswith(PRICES) else [])):
        passes, refused = 0, 62
        while refused - passes > 1:
            k = (passes + refused) // 2
            try:
                proved(enlarged(tight(name), how, 2**k))
            except CertificateTooLargeError:
                refused = k
                continue
            except CertificateError:  # paths or partial schedules are left
                pass
            passes = k
        found[how] = refused
    return found


if __name__ == "__main__":
    least = {name: least_limits(name) for name in NAMES}
    first = {name: first_too_large(name) for name in IN_ROUNDS}
    tables = {"tight": TIGHT, "least": least, "first": first}
    FILE.write_text(json.dumps(tables, indent=1) + "\n", "utf-8")
