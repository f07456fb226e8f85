"""Check of certificates of lower bounds on total latency in seconds, which have a batch time.

These certificates have no schedule. There are two kinds of proofs:

* ``"round-length-prices"``: prices of machine time, constant in cells of time. The statement and
  its proof are in `hindsight.prices.round_lengths`: any prices >= 0 prove a bound, on any time grid
  and with any allowances. The checker recomputes the bound and the minorant, an affine lower bound
  on the batch time (the length of a round).
* ``"machine-bounds"``: no further data. The checker computes `machine_bounds`, in fractions.

No search is loaded. But unlike in rounds, the checker shares code with the solver:

* `hindsight.prices.minorants` and `hindsight.prices.machines`, in fractions;
* `hindsight.prices.round_lengths` with the compiled loops of `round_length_values`, in floats
  rounded outward, which evaluate the prices;
* `rounded_down`, which rounds a bound to a float.

The bounds hold if preempted requests keep their tokens, and so also if they recompute them. An
instance with ``"replicas"`` is a fleet. Each replica has the stated memory.
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

from . import format as form
from . import limits
from .problem import read_problem

PRICES, MACHINE = "round-length-prices", "machine-bounds"

MOST = 2**53
"""Largest lower bound on total latency, in seconds, that a certificate may claim. Floats represent
all integers up to it."""

SHARE_UNITS = 1000
"""Denominator of the shares in two lists. ``gammas``: share of each price paid for memory and
work. ``attendances``: share of the remaining price paid for work and for taking part in rounds."""

STEP = 1000
"""Estimated work of `machine_bounds` for each output token and each affine lower bound on the batch
time, as a number of array entries visited."""

TANGENT, BLOCK, SUM = 20, 20_000, 80_000
"""Estimated work of compiled loops, in array entries visited: for each price in a tangent (linear
bound on payments, `TANGENT`), each block (run of steps of a request, `BLOCK`), each price (`SUM`).
"""

AT_ONCE = 200
"""Number of array entries that compiled loops visit in the time in which numpy visits one entry."""


def check_seconds(document: Mapping[str, Any]) -> form.Verdict:
    """Check a certificate of a lower bound on total latency in seconds. Return what it proves.

    `check_certificate` has already checked the keys of ``document``.
    """
    batch_time = _read_batch_time(document["batch_time"])
    workload = read_problem(document["instance"], Workload)
    claim = _number(document["lower_bound"], "lower_bound", 0, MOST)
    proved = proved_seconds(workload, batch_time, document["proof"], limits.LARGEST_WORK)
    if proved < claim:
        raise form.CertificateError(
            f"lower_bound is {claim} s, but the proof proves no more than {rounded_down(proved)} s"
        )
    kind: str = document["proof"]["kind"]
    facts: Any = workload.digest, True, workload.memory_rule.told, batch_time, workload.replicas
    return form.Verdict(claim, None, kind, len(workload), 0, *facts)


def proved_seconds(
    workload: Workload, batch_time: StorableTime, part: Any, most_work: float
) -> Fraction:
    """Compute the lower bound on total latency, in seconds, that a proof of a certificate gives.

    ``part`` is the entry ``"proof"`` of the certificate.

    Raises
    ------
    MalformedCertificateError
        The proof is malformed.
    CertificateTooLargeError
        The check would visit more than about ``most_work`` array entries, or a table in the proof
        is too large.
    """
    kind = part.get("kind") if isinstance(part, Mapping) else None
    form.demand(kind in (PRICES, MACHINE), f"proof: kind {form.shown(kind)} is unknown in seconds")
    minorants = affine_minorants(batch_time, workload.memory_limit)
    if kind == MACHINE:
        form.keys_of(part, ("kind",), "proof")
        work = STEP * len(minorants) * int(workload.output_lengths.sum())
        form.refuse_above(most_work, work, form.TOO_MUCH_WORK)
        return max(machine_bounds(workload, batch_time).values())
    grid = ("step", "block", "spread", "allowances")
    named = ("kind", "scale", "minorant", "cell", "prices", "gammas", *grid)
    form.keys_of(part, named, "proof", optional=("participation",))
    index = form.whole(part["minorant"], "minorant")
    form.demand(index < len(minorants), f"minorant: index {index} is out of range")
    return _priced(workload, minorants[index], part, most_work)


def _priced(
    workload: Workload, minorant: AffineMinorant, part: Mapping[str, Any], most_work: float
) -> Fraction:
    """Return the lower bound on total latency, in seconds, that the prices of a proof give.

    ``part`` is the entry ``"proof"`` of the certificate, of the kind "round-length-prices".
    """
    # Imported here, because numba takes a second to load.
    from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices

    given, most_cells = form.wholes(part["prices"], "prices"), limits.LARGEST_CELLS
    count = len(given)
    form.refuse_above(most_cells, count, f"prices: more than {most_cells} cells of time")
    price = np.array(given, dtype=np.float64) / form.whole(part["scale"], "scale", 1)
    gamma, participation = _thousandths(part, "gammas", count), None
    if "participation" in part:
        participation = _participation(part["participation"], count, len(workload))
    cell = _number(part["cell"], "cell", 2.0**-40, 2.0**40)
    step = _number(part["step"], "step", 2.0**-40, 2.0**40)
    spread = _number(part["spread"], "spread", *limits.SPREADS)
    # ``size`` is the largest number of consecutive steps of a request whose payments are bounded
    # together. A ``size`` above the longest output would only waste memory.
    size = min(form.whole(part["block"], "block", 1), int(workload.output_lengths.max()))
    cells = form.wholes(part["allowances"], "allowances", len(workload))
    allowance = np.array(cells, dtype=np.float64) * cell
    work = _work(workload, minorant, cell, (step, size, spread), allowance)
    form.refuse_above(most_work, work + count * SUM // AT_ONCE, form.TOO_MUCH_WORK)
    try:
        prices = RoundLengthPrices(cell, price, gamma, participation)
        priced = PricedValues(workload, minorant, prices, step, size, spread)
    except ValueError as error:
        raise form.MalformedCertificateError(f"proof: {error}") from error
    values = np.zeros(len(workload))
    with ThreadPoolExecutor(1) as pool:
        priced.raise_values(values, allowance, np.arange(len(workload)), pool)
    return priced.total(values)


def _thousandths(part: Mapping[str, Any], key: str, count: int) -> FloatArray:
    """Read the entry ``key`` of a proof: ``count`` shares in [0, 1], given in thousandths."""
    return np.array(form.wholes(part[key], key, count), dtype=np.float64) / SHARE_UNITS


def _participation(part: Any, cells: int, n: int) -> tuple[FloatArray, Any]:
    """Read the entry ``"participation"`` of a proof: payments for taking part in rounds.

    ``part`` is this entry, ``cells`` the number of prices of the proof, and ``n`` the number of
    requests. Return the field ``participation`` of `RoundLengthPrices`.
    """
    from hindsight.prices.round_lengths import Shares

    form.keys_of(part, ("attendances", "firsts", "levels"), "participation")
    rows = [form.wholes(row, "levels") for row in form.list_of(part["levels"], "levels", n)]
    first = np.array(form.wholes(part["firsts"], "firsts", n), dtype=np.int64)
    length = np.array([len(row) for row in rows], dtype=np.int64)
    levels = np.array([level for row in rows for level in row], dtype=np.float64)
    return _thousandths(part, "attendances", cells), Shares(first, first + length, levels)


def _work(
    workload: Workload,
    minorant: AffineMinorant,
    cell: float,
    grid: tuple[float, int, float],
    allowance: FloatArray,
) -> int:
    """Return an upper estimate of the work of `PricedValues` for all requests.

    The unit is the time in which numpy visits one array entry. The estimate follows four nested
    loops: over the blocks of a request (consecutive steps), over groups of neighbouring grid points
    at which a block may begin, over ranges of durations of a block, and over the tangents that all
    starts in one group and all durations in one range try: lower bounds on what the block pays.

    Parameters
    ----------
    workload : Workload
        Requests of the certificate.
    minorant : AffineMinorant
        Affine lower bound on the length of a round.
    cell : float
        Length of an interval with one price, in seconds.
    grid : tuple[float, int, float]
        Parameters ``step``, ``size`` and ``spread`` of `PricedValues`.
    allowance : float64 array, shape (n,)
        Seconds after the arrival of each request. Up to then, the least remaining cost of the
        request (latency plus payments) is computed at each grid point.

    Raises
    ------
    CertificateTooLargeError
        The time grid has too many points, or its step is much shorter or longer than the overhead
        of a round.
    """
    from hindsight.prices.round_length_tangents import FLATTEST, HALVINGS, SLOPES, WIDE, WINDOWS
    from hindsight.prices.round_length_values import GROUP, LONGEST
    from hindsight.prices.round_lengths import longest_block

    step, size, spread = grid
    d0, d1, d2 = map(float, minorant)
    s = workload.prompt_lengths.astype(np.float64)
    o = workload.output_lengths.astype(np.float64)
    own = own_seconds(s, o, d0, d1, d2)
    until = float(allowance.max())
    # No duration is examined that exceeds the allowance by more than the least duration.
    lasts = min(longest_block(workload, minorant, size), until + 2 * own.max())
    window = (4 * lasts + until) / step
    reason = "proof: a request or a price cell has too many points of the time grid"
    form.refuse_above(limits.LARGEST_WINDOW, window, reason)
    form.refuse_above(limits.WIDEST_CELL * step, cell, reason)
    reason = "proof: the step is far from the overhead d0 of a round: it must be between"
    reason += f" d0 / {limits.FINEST_STEP:g} and {limits.COARSEST_STEP:g} d0"
    form.refuse_above(step, d0 / limits.FINEST_STEP, reason)
    form.refuse_above(limits.COARSEST_STEP * d0, step, reason)
    block = np.maximum(np.minimum(o, size) * (d0 + d1 + d2 * (s + o)), d0 + (d1 + d2) * (s + 1))
    blocks = 4 + o / size + np.log(np.maximum(1, 2 * size / (s + 1))) / math.log(1.5)
    rest = np.maximum(allowance - own, 0)
    points, width, d0 = rest / step + 3, cell / step, d0 / step
    # A group has at least GROUP * d0 grid points, and most groups have the points of a cell.
    group = max(width / 2, GROUP * d0)
    groups, starts = points / group + 2, np.minimum(points, max(width, group) + 1)
    longest = np.minimum(LONGEST * block, rest + 2 * block) / step + 3
    # Windows grow with the durations up to d0 or one grid step, and again after WIDE times that.
    shortest = max(1.0, d0)
    widest = np.maximum(WINDOWS * shortest, longest * WINDOWS / WIDE)
    growth = 1 + 0.5 * WINDOWS * min(1 / WINDOWS, spread - 1)
    ranges = 6 + math.log(1 + d0) / math.log(growth)
    later = np.log(1 + longest / (WIDE * shortest)) / math.log(1 + WINDOWS / WIDE)
    later = np.minimum(longest / (WINDOWS * shortest), WIDE / WINDOWS + later)
    ranges = np.minimum(ranges, longest / WINDOWS) + later + 1
    mean = 0.5 * (longest + block / step) + widest
    cells = (starts + mean) / width + 2
    tangent = starts + mean + (starts + widest) * (3 + math.log2(3 + d0)) + 2 * WINDOWS * starts
    tangent += TANGENT * cells + (starts / width + 1) * cells
    slopes = 4 * (HALVINGS + 1) * TANGENT * cells
    tangents = min(SLOPES, math.log(FLATTEST, spread)) + 2
    work = groups * (ranges * (tangents * tangent + slopes) + longest / width)
    work += 4 * longest + (points / width + 2) * (longest / width + 2) + BLOCK
    return int((blocks * work).sum() / AT_ONCE)


def _number(value: Any, where: str, minimum: float, maximum: float) -> float:
    """Return ``value`` as a float if it is a number between ``minimum`` and ``maximum``.

    ``where`` names the entry of the certificate in messages. The JSON values true and 1e999
    (infinity) are refused.
    """
    form.demand(type(value) in (int, float), f"{where}: {form.shown(value)} is not a number")
    reason = f"{where}: {form.shown(value)} is not between {minimum:g} and {maximum:g}"
    form.demand(minimum <= value <= maximum, reason)
    return float(value)


def _read_batch_time(part: Any) -> StorableTime:
    """Read a batch time from JSON: a list of the coefficients of an `AffineTime`, or an object.

    The object holds the parameters of a `TiledTime`.
    """
    tables = part.values() if isinstance(part, Mapping) else form.list_of(part, "batch_time")
    longest = max((len(one) for one in tables if isinstance(one, list)), default=0)
    most = limits.LARGEST_TIME
    form.refuse_above(most, longest, f"batch_time: a list has more than {most} entries")
    try:
        return batch_time_of(part)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise form.MalformedCertificateError(f"batch_time: {error}") from error
