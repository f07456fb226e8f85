"""Check of certificates of lower bounds on total latency in seconds, which have a batch time.

These certificates have no schedule. There are two kinds of proofs:

* ``"round-length-prices"``: prices of machine time, constant in cells of time. The statement and
  its proof are in `hindsight.prices.round_lengths`: any prices >= 0 prove a bound, on any time grid
  and with any allowances. The checker recomputes the bound, and the minorant of the batch time.
* ``"machine-bounds"``: no further data. The checker computes `machine_bounds`, in fractions.

No solver is loaded. But unlike in rounds, prices are evaluated by the code of the solver: compiled
loops in floats, rounded outward. The bounds hold if preempted requests keep their tokens, and so
also if they recompute them. An instance with ``"replicas"`` is a fleet; each replica has the stated
memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np

from hindsight.outcomes.result import rounded_down
from hindsight.prices.machines import machine_bounds
from hindsight.prices.minorants import AffineMinorant, affine_minorants, own_seconds
from instances import Workload
from instances.arrays import FloatArray
from instances.batch_time.presets import StorableTime, batch_time_of

from . import limits
from .format import (
    CertificateError,
    CertificateTooLargeError,
    MalformedCertificateError,
    Verdict,
    keys_of,
    list_of,
    shown,
    whole,
    wholes,
)
from .problem import ANY_PROMPTS, identified, read_memory_rule

PRICES, MACHINE = "round-length-prices", "machine-bounds"

MOST = 2**53
"""Largest claimed bound in seconds: up to this value, floats represent all integers."""

GAMMA_UNITS = 1000
"""Unit of the shares ``gammas`` in a file: 1 / GAMMA_UNITS."""

STEP = 1000
"""Work of `machine_bounds` per round of a request and minorant, in entries visited."""

TANGENT, BLOCK, SUM = 300, 10_000, 40_000
"""Work in entries visited: for a tangent in each cell that it spans, for a block in addition, and
for the sum of the price of a cell."""

AT_ONCE = 100
"""Entries that the compiled loops visit in the time of one entry elsewhere."""


def check_seconds(document: Mapping[str, Any]) -> Verdict:
    """Check a certificate of a bound in seconds, after `check_certificate` has checked its keys."""
    batch_time = _read_batch_time(document["batch_time"])
    workload = _read_workload(document["instance"])
    claim = _number(document["lower_bound"], "lower_bound", 0, MOST)
    proved = proved_seconds(workload, batch_time, document["proof"])
    if proved < claim:
        raise CertificateError(
            f"lower_bound is {claim} s, but the proof proves no more than {rounded_down(proved)} s"
        )
    kind: str = document["proof"]["kind"]
    sizes, rule = (len(workload), int(kind == PRICES), 0), workload.memory_rule.told
    machine: Any = {"memory_rule": rule, "batch_time": batch_time, "replicas": workload.replicas}
    return Verdict(claim, None, kind, *sizes, workload.digest, preemptive=True, **machine)


def proved_seconds(
    workload: Workload, batch_time: StorableTime, part: Any, most_work: int | None = None
) -> Fraction:
    """Compute the lower bound on total latency that a proof gives, in seconds.

    Raises
    ------
    MalformedCertificateError
        The proof is malformed.
    CertificateTooLargeError
        More than ``most_work`` (None: `LARGEST_WORK`) array entries would be visited.
    """
    most_work = limits.LARGEST_WORK if most_work is None else most_work
    kind = part.get("kind") if isinstance(part, Mapping) else None
    if kind not in (PRICES, MACHINE):
        raise MalformedCertificateError(f"proof: kind {shown(kind)} is unknown in seconds")
    minorants = affine_minorants(batch_time, workload.memory_limit)
    if kind == MACHINE:
        keys_of(part, ("kind",), "proof")
        _refuse_work(STEP * len(minorants) * int(workload.output_lengths.sum()), most_work)
        return max(one.total for one in machine_bounds(workload, batch_time).values())
    grid = ("step", "block", "spread", "allowances")
    keys_of(part, ("kind", "scale", "minorant", "cell", "prices", "gammas", *grid), "proof")
    index = whole(part["minorant"], "minorant")
    if index >= len(minorants):
        raise MalformedCertificateError(f"minorant: index {index} is out of range")
    return _priced(workload, minorants[index], part, most_work)


def _priced(
    workload: Workload, minorant: AffineMinorant, part: Mapping[str, Any], most_work: int
) -> Fraction:
    # Imported here, because numba takes a second to load.
    from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices

    scale, count = whole(part["scale"], "scale", 1), len(list_of(part["prices"], "prices"))
    if count > limits.LARGEST_CELLS:
        raise CertificateTooLargeError(f"prices: more than {limits.LARGEST_CELLS} cells")
    price = np.array(wholes(part["prices"], "prices"), dtype=np.float64) / scale
    gamma = np.array(wholes(part["gammas"], "gammas", count), dtype=np.float64) / GAMMA_UNITS
    cell = _number(part["cell"], "cell", 2.0**-40, 2.0**40)
    step = _number(part["step"], "step", 2.0**-40, 2.0**40)
    spread = _number(part["spread"], "spread", *limits.SPREADS)
    # Blocks longer than the longest output would only waste memory.
    size = min(whole(part["block"], "block", 1), int(workload.output_lengths.max()))
    cells = wholes(part["allowances"], "allowances", len(workload))
    allowance = np.array(cells, dtype=np.float64) * cell
    work = _work(workload, minorant, cell, (step, size, spread), allowance)
    _refuse_work(work + count * SUM // AT_ONCE, most_work)
    try:
        prices = RoundLengthPrices(cell, price, gamma)
        priced = PricedValues(workload, minorant, prices, step, size, spread)
    except ValueError as error:
        raise MalformedCertificateError(f"proof: {error}") from error
    values = np.zeros(len(workload))
    with ThreadPoolExecutor(1) as pool:
        priced.raise_values(values, allowance, np.arange(len(workload)), pool)
    return priced.bound(values, minorant).total


def _work(
    workload: Workload,
    minorant: AffineMinorant,
    cell: float,
    grid: tuple[float, int, float],
    allowance: FloatArray,
) -> int:
    """Return an upper estimate of the work to evaluate the values of all requests.

    The estimate follows the loops of `hindsight.prices.round_lengths` over blocks, groups of grid
    points, and ranges of lengths with a common tangent.

    Raises
    ------
    CertificateTooLargeError
        A grid has too many points, or its step is too far from the overhead of a round.
    """
    from hindsight.prices.round_length_values import GROUP, LONGEST
    from hindsight.prices.round_lengths import longest_block

    step, size, spread = grid
    d0, d1, d2 = map(float, minorant)
    s = workload.prompt_lengths.astype(np.float64)
    o = workload.output_lengths.astype(np.float64)
    room = (4 * longest_block(workload, minorant, size) + float(allowance.max())) / step
    if not room <= limits.LARGEST_WINDOW or not cell <= limits.WIDEST_CELL * step:
        raise CertificateTooLargeError("proof: the grid has too many points")
    if not d0 / limits.FINEST_STEP <= step <= limits.COARSEST_STEP * d0:
        raise CertificateTooLargeError("proof: the step is far from the overhead of a round")
    longest = np.minimum(o, size) * (d0 + d1 + d2 * (s + o))
    longest = LONGEST * np.maximum(longest, d0 + (d1 + d2) * (s + 1)) / step + 2
    own = own_seconds(s, o, d0, d1, d2)
    blocks = 3 + o / size + np.log(np.maximum(1, 2 * size / (s + 1))) / math.log(1.5)
    points = np.maximum(allowance - own, 0) / step + 3
    width = cell / step
    ranges = 1 / (spread - 1) + np.log(longest) / math.log(spread) + 2
    lengths = longest * spread / (spread - 1)

    def numbers(group: float) -> FloatArray:
        groups, count = points / group + 1, np.minimum(points, group)
        spans = (count / width + 1) * ((group + longest) / width + 2)
        work = 2 * (ranges * count + lengths) * (6 + np.log2(longest))
        work += TANGENT * (ranges + lengths / width) + ranges * spans
        work = groups * work + 4 * longest + (points / width + 2) * spans + BLOCK
        return np.asarray(work)

    # For prompts, groups of grid points may be shorter than a cell.
    group = GROUP * (spread - 1) * d0 / step + 1
    work = blocks * numbers(max(width, group)) + numbers(group)
    return int(work.sum() / AT_ONCE)


def _refuse_work(numbers: int, most: int) -> None:
    if numbers > most:
        raise CertificateTooLargeError("proof: to check it takes more than this checker does")


def _number(value: Any, where: str, minimum: float, maximum: float) -> float:
    """Return a number in a range as a float; true and 1e999 are refused."""
    if type(value) not in (int, float):
        raise MalformedCertificateError(f"{where}: {shown(value)} is not a number")
    if not minimum <= value <= maximum:
        raise MalformedCertificateError(
            f"{where}: {shown(value)} is not between {minimum:g} and {maximum:g}"
        )
    return float(value)


def _read_batch_time(part: Any) -> StorableTime:
    tables = part.values() if isinstance(part, Mapping) else list_of(part, "batch_time")
    if any(isinstance(one, list) and len(one) > limits.LARGEST_TIME for one in tables):
        raise CertificateTooLargeError(f"batch_time: more than {limits.LARGEST_TIME} entries")
    try:
        return batch_time_of(part)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise MalformedCertificateError(f"batch_time: {error}") from error


def _read_workload(part: Any) -> Workload:
    """Read the requests and recompute their digest."""
    names = ("memory_limit", "requests", "digest")
    keys_of(part, names, "instance", optional=("memory_rule", "replicas"))
    rule = read_memory_rule(part)
    rows = [list_of(row, "requests") for row in list_of(part["requests"], "requests")]
    limit = whole(part["memory_limit"], "memory_limit", 1)
    replicas = whole(part.get("replicas", 1), "replicas", 1)
    machine = {"memory_limit": limit, "memory_rule": rule, "replicas": replicas, **ANY_PROMPTS}
    return identified(part, lambda: Workload(*zip(*rows, strict=True), **machine))
