"""Check of certificates of lower bounds on total latency in seconds, which have a batch time.

These certificates have no schedule. There are two kinds of proofs:

* ``"round-length-prices"``: prices of machine time, constant in cells of time. The statement and
  its proof are in `hindsight.prices.round_lengths`: any prices >= 0 prove a bound, on any time grid
  and with any allowances. The checker recomputes the bound and the minorant, an affine lower bound
  on the batch time (the length of a round).
* ``"machine-bounds"``: no further data. The checker computes `machine_bounds`, in fractions.

Prices are evaluated by `hindsight.certificates.priced_values`, in integers. It shares no code with
the solver's evaluation. From the solver come only exact fractions: `hindsight.prices.minorants` and
`hindsight.prices.machines`. `rounded_down` rounds a bound to a float.

The bounds hold if preempted requests keep their tokens, and so also if they recompute them. An
instance with ``"replicas"`` is a fleet. Each replica has the stated memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from hindsight.outcomes.result import rounded_down
from hindsight.prices.machines import machine_bounds
from hindsight.prices.minorants import AffineMinorant, affine_minorants
from instances import Workload
from instances.arrays import FloatArray
from instances.batch_time.presets import StorableTime, batch_time_of
from instances.problem.memory_translation import relaxed

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

STEP, POINT, BLOCK = 1000, 1500, 20_000
"""Estimates of work, as numbers of array entries visited. `STEP`: of `machine_bounds`, for each
output token and each affine lower bound on the batch time. `POINT`, `BLOCK`: of an evaluation of
prices, for each grid point of a request in each block, and for each block (run of consecutive steps
of a request)."""


def check_seconds(document: Mapping[str, Any]) -> form.Verdict:
    """Check a certificate of a lower bound on total latency in seconds. Return what it proves.

    `check_certificate` has already checked the keys of ``document``.
    """
    batch_time = _read_batch_time(document["batch_time"])
    workload = read_problem(document["instance"], Workload)
    claim = _number(document["lower_bound"], "lower_bound", 0, MOST)
    proved = proved_seconds(workload, batch_time, document["proof"], limits.LARGEST_WORK)
    reason = f"lower_bound is {claim} s, but the proof proves no more than {rounded_down(proved)} s"
    form.demand(proved >= claim, reason, form.CertificateError)
    facts: Any = workload.digest, True, workload.memory_rule.told, batch_time, workload.replicas
    return form.Verdict(claim, None, document["proof"]["kind"], len(workload), 0, *facts)


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
    prices = ("scale", "cell", "prices", "gammas", "attendances", "firsts", "levels")
    form.keys_of(part, ("kind", "minorant", *prices, "step", "block", "allowances"), "proof")
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
    from .priced_values import Grid, least_cost

    given, most_cells = form.wholes(part["prices"], "prices"), limits.LARGEST_CELLS
    count, n = len(given), len(workload)
    form.refuse_above(most_cells, count, f"prices: more than {most_cells} cells of time")
    form.demand(count > 0, "prices: the list is empty")
    scale = form.whole(part["scale"], "scale", 1)
    cell, step = _power(part, "cell"), _power(part, "step")
    form.demand(step <= cell, f"step: {step:g} is longer than a cell, {cell:g}")
    gamma, attendance = (_thousandths(part, key, count) for key in ("gammas", "attendances"))
    levels = _levels(part, count, n)
    allowance = np.array(form.wholes(part["allowances"], "allowances", n), dtype=np.float64) * cell
    price = np.array(given, dtype=np.float64) / scale
    rest = (1 - gamma) * price
    rows = np.array([price, gamma * price, rest * (1 - attendance)])
    eta, prices = rest * attendance, np.pad(rows, ((0, 0), (0, 1)))
    total = np.zeros(count)
    for first, row in levels:
        total[first : first + len(row)] += row
    # A block of more steps than the longest output would be cut down to it.
    size = form.whole(part["block"], "block", 1)
    done = [0.0]

    def spend(work: float) -> None:
        done[0] += work
        form.refuse_above(most_work, done[0], form.TOO_MUCH_WORK)

    expected = _expected_work(workload, float(minorant.d0), (cell, step, size), allowance)
    form.refuse_above(most_work, expected, form.TOO_MUCH_WORK)
    workload, width = relaxed(workload), round(cell / step)
    grid = Grid(minorant, workload.memory_limit, step, width, prices, size, spend)
    bound = -workload.replicas * Fraction(cell) * sum(given) / scale
    columns = workload.arrival_times, workload.prompt_lengths, workload.output_lengths
    lists = (one.tolist() for one in (*columns, allowance))
    for arrival, prompt, output, until, (first, row) in zip(*lists, levels, strict=True):
        levy = np.zeros(count + 1)
        covered = slice(first, first + len(row))
        levy[covered] = float(minorant.d0) * eta[covered] * row / np.maximum(total[covered], 1)
        bound += least_cost(grid, (arrival, prompt, output), levy, until)
    return bound


def _thousandths(part: Mapping[str, Any], key: str, count: int) -> FloatArray:
    """Read the entry ``key`` of a proof: ``count`` shares in [0, 1], given in thousandths."""
    listed = form.wholes(part[key], key, count)
    form.demand(max(listed) <= SHARE_UNITS, f"{key}: a number is above {SHARE_UNITS}")
    return np.array(listed, dtype=np.float64) / SHARE_UNITS


def _levels(part: Mapping[str, Any], cells: int, n: int) -> list[tuple[int, FloatArray]]:
    """Read the entries ``"firsts"`` and ``"levels"`` of a proof: what requests pay for rounds.

    ``cells`` is the number of prices of the proof, and ``n`` the number of requests. Return, for
    each request, its first cell with a level and the levels from there on.
    """
    firsts = form.wholes(part["firsts"], "firsts", n)
    rows = [form.wholes(row, "levels") for row in form.list_of(part["levels"], "levels", n)]
    is_within = all(first + len(row) <= cells for first, row in zip(firsts, rows, strict=True))
    form.demand(is_within, f"levels: a request has levels after the last of {cells} cells")
    # Floats represent sums of whole numbers exactly up to 2^53.
    form.demand(sum(map(sum, rows)) < 2**53, "levels: their sum is 2^53 or more")
    return [(k, np.array(row, dtype=np.float64)) for k, row in zip(firsts, rows, strict=True)]


def _expected_work(
    workload: Workload, d0: float, grid: tuple[float, float, int], allowance: FloatArray
) -> float:
    """Return an estimate of the work of an evaluation of prices, in array entries visited.

    ``grid`` has the length of a cell and of a step of the time grid in seconds, and the largest
    number of steps of a block. ``allowance`` has, for each request, the seconds that are evaluated.
    ``d0`` is the overhead of a round.

    Raises
    ------
    CertificateTooLargeError
        The time grid has too many points, or its step is much shorter or longer than the overhead
        of a round.
    """
    cell, step, size = grid
    reason = "proof: a request or a price cell has too many points of the time grid"
    form.refuse_above(limits.LARGEST_WINDOW * step, float(allowance.max()), reason)
    form.refuse_above(limits.WIDEST_CELL * step, cell, reason)
    reason = "proof: the step is far from the overhead d0 of a round: it must be between"
    reason += f" d0 / {limits.FINEST_STEP:g} and {limits.COARSEST_STEP:g} d0"
    form.refuse_above(step, d0 / limits.FINEST_STEP, reason)
    form.refuse_above(limits.COARSEST_STEP * d0, step, reason)
    s, o = workload.prompt_lengths, workload.output_lengths
    blocks = o / size + np.log(np.maximum(1, np.minimum(o, 2 * size) / (s + 1))) / math.log(1.5)
    return float((blocks * (BLOCK + POINT * allowance / step)).sum())


def _power(part: Mapping[str, Any], key: str) -> float:
    """Read the entry ``key`` of a proof: a number of seconds, and a power of two."""
    value = _number(part[key], key, 2.0**-40, 2.0**40)
    form.demand(math.frexp(value)[0] == 0.5, f"{key}: {value:g} is not a power of two")
    return value


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
