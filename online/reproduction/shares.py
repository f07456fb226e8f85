"""The verdict most rules end with: by how many of the statements of a claim hold."""

from __future__ import annotations

from collections.abc import Sequence

from .declaration import Verdict


def by_share(holds: Sequence[bool]) -> Verdict:
    """Reproduced where all statements hold, in part where some does."""
    if all(holds):
        return "reproduced"
    return "in part" if any(holds) else "not reproduced"
