"""Limits of the checker that the tight documents need; run as a program it writes them again."""

from __future__ import annotations

import json
import re

from documents import FILE, NAMES, TIGHT, tight

from hindsight import check_certificate
from hindsight.certificates import limits
from hindsight.certificates.format import CertificateTooLargeError


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


if __name__ == "__main__":
    least = {name: least_limits(name) for name in NAMES}
    FILE.write_text(json.dumps({"tight": TIGHT, "least": least}, indent=1) + "\n", "utf-8")
