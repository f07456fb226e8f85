"""Writing of certificates in seconds: rounded prices, on the time grid with the best bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from hindsight.outcomes.result import rounded_down
from hindsight.prices.minorants import affine_minorants
from hindsight.prices.round_lengths import SecondsProof
from hindsight.seconds.solving import grids
from instances import InvalidTypeError, InvalidValueError
from instances.batch_time import AffineTime, TiledTime
from instances.batch_time.presets import batch_time_document
from instances.problem.schedule import TimedSchedule

from .format import FORMAT, VERSION, CertificateError
from .limits import LARGEST_WORK
from .problem import instance_part
from .seconds_proof import GAMMA_UNITS, MACHINE, PRICES, proved_seconds

BITS = 16
"""Bits to which the largest price is rounded. On the library, bounds lose up to 0.01 % with 16 bits
and up to 0.06 % with 8."""

WORK_PER_SECOND = 2 * 10**8
"""Work that `seconds_proof` does in about one second, in entries visited."""

CHECK_SHARE = 1 / 3
"""Largest share of the time limit for evaluating a proof on one grid."""


def seconds_certificate(
    schedule: TimedSchedule, proof: SecondsProof | None, time_limit: float | None
) -> dict[str, Any]:
    """Make a certificate for the requests and batch time of a schedule; see `make_certificate`.

    Finer and finer time grids are tried, as long as a check is estimated to take at most
    `CHECK_SHARE` of the time limit.

    Raises
    ------
    InvalidTypeError
        The batch time is of a type that cannot be stored in a file.
    CertificateTooLargeError
        There are too many tokens for any proof.
    InvalidValueError
        The proof is for other requests or another batch time.
    """
    workload: Any = schedule.problem
    batch_time = workload.batch_time
    if not isinstance(batch_time, AffineTime | TiledTime):
        reason = "has no certificate: files hold an AffineTime or a TiledTime"
        raise InvalidTypeError(None, "batch_time", batch_time, reason)
    best: dict[str, Any] = {"kind": MACHINE}
    bound = proved_seconds(workload, batch_time, best)
    work = LARGEST_WORK
    if time_limit is not None:
        work = min(work, int(CHECK_SHARE * time_limit * WORK_PER_SECOND))
    minorants = affine_minorants(batch_time, workload.memory_limit)
    if proof and (proof.minorant not in minorants or len(proof.allowance) != len(workload)):
        reason = "is for other requests or another batch time"
        raise InvalidValueError(None, "proof", type(proof).__name__, reason)
    for part in () if proof is None else _on_grids(proof, minorants.index(proof.minorant)):
        try:
            proved = proved_seconds(workload, batch_time, part, work)
        except CertificateError:
            # The check takes too much work, or an arrival is too late for the grid: finer grids
            # would fail too.
            break
        if proved > bound:
            best, bound = part, proved
    return {
        "format": FORMAT,
        "version": VERSION,
        "instance": instance_part(workload),
        "batch_time": batch_time_document(batch_time),
        "lower_bound": rounded_down(bound),
        "proof": best,
    }


def _on_grids(proof: SecondsProof, minorant: int) -> Iterator[dict[str, Any]]:
    """Yield the proof on each time grid that a solve uses, from the coarsest to the finest."""
    prices = proof.prices
    # The largest price is below 2^BITS units.
    scale = 2 ** max(0, BITS - math.frexp(float(prices.price.max()))[1])
    for step, block, spread in grids(proof.minorant, prices):
        yield {
            "kind": PRICES,
            "scale": scale,
            "minorant": minorant,
            "cell": prices.cell,
            "prices": np.rint(prices.price * scale).astype(np.int64).tolist(),
            "gammas": np.rint(prices.gamma * GAMMA_UNITS).astype(np.int64).tolist(),
            "step": step,
            "block": block,
            "spread": spread,
            "allowances": np.ceil(proof.allowance / prices.cell).astype(np.int64).tolist(),
        }
