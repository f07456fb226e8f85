"""Find a batch time by name, in a file, or in the inter-token times of a log.

**Why inter-token times tell it.** An engine works in rounds, and each that decodes a request ends
with a token of it. So the time between two tokens of a request is the length of one round, or of
several where the request was preempted or held in between, and each round lasts

    seconds = d0 + d1 (tokens processed) + d2 (tokens resident).

All but the seconds can be counted in the log: a request holds s + k tokens at its k-th, from its
first token to its last, and is processed one token in each round; a prompt is processed in the
round that ends with its first token, and held there. What is not known: when the chunks of a prompt
that took several rounds were processed (all are counted in the last), what was processed again,
what the machine does between rounds, and what clients add. It is in the error of the fit.

**What is done.** For each gap (u, v] between two tokens of a request, tokens processed are those
of all requests that came out in (u + e, v + e], with the prompts of first ones; resident ones are
those at v + e of all that were in service after u + e; and rounds are as many as there are groups
of tokens that came out in between, apart from each other by more than e. The tolerance e is half
of the shortest gaps: a busy server sends the tokens of one round over a third of its length, and a
smaller tolerance would count that round twice. A row is the sum over `WINDOW` gaps of a request,
divided by their rounds: what is counted at the wrong side of a token, such as a chunk, is small
beside a window. Of a request of which only the mean gap is known tokens are spread evenly, its row
is the mean over its gaps, and each gap counts as one round. Rows are weighted by 1 / predicted
seconds, so that errors are in per cent. Weights of 1 / measured seconds would favour rounds that
happened to be short, and make every round too short.

**How good it is.** The rows are cut into `BLOCKS` blocks of consecutive time; each is predicted by
a fit to the others. The error stated is the mean of |predicted - measured| / measured over all.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from instances import InvalidValueError, RequestLog
from instances.arrays import FloatArray, IntArray
from instances.batch_time import AffineTime, TiledTime
from online.batch_time.measured_tables import read_batch_time
from online.batch_time.measurements import Measurements

FIT = "fit"
"""Name that asks for a fit to the log's own inter-token times."""

BLOCKS = 5
"""Blocks of rows, each predicted by the others."""

LEAST_ROWS = 30
"""Rows below which nothing is fitted."""

WINDOW = 16
"""Gaps of a request that make a row."""

MOST_WINDOWS = 100_000
"""Rows, about."""

LARGEST_ERROR = 0.25
"""Mean absolute share by which predictions may be off."""

LARGEST_CONDITION = 150.0
"""Condition of the rows, columns scaled to length 1, above which coefficients cannot be separated:
a column varies by about 2 % of its mean, or two columns have a correlation of about 0.9999."""

WEIGHINGS = 4
"""Fits in turn, each with the weights that the one before it gives."""

LEAST_EXPECTED = 0.1
"""Share of its measured seconds that a row is expected to take at least, where weights are made."""

NEGLIGIBLE = 0.02
"""Share of the seconds of a mean round up to which a negative coefficient counts as 0."""

WAY_OUT = "give --batch-time a preset, affine:d0,d1,d2 or other measured rounds"


def round_measurements(log: RequestLog) -> Measurements:
    """Make rounds of the times between tokens of a log, in order of time; see the module.

    Raises
    ------
    InvalidValueError
        The log lacks the time to first token or the times between tokens of a request.
    """
    import pandas

    s, o, counts = log.prompt_lengths, log.output_lengths, np.diff(log.inter_token_offsets)
    has_all = (counts == o - 1) & (counts > 0)
    means = np.where(o > 1, log.mean_inter_token_times, 0.0)
    known = np.isfinite(log.times_to_first_token) & (has_all | np.isfinite(means))
    if not known.all():
        raise _refusal(
            "needs the time to first token and the times between tokens of every request, and "
            f"{len(o) - int(known.sum())} of {len(o)} have none"
        )
    owner, begins = np.repeat(np.arange(len(o)), o), np.cumsum(o) - o
    is_first = np.diff(owner, prepend=-1) > 0
    steps = np.where(is_first, 0.0, means[owner])
    # Every gap of a request that has them all takes the place of the mean.
    steps[has_all[owner] & ~is_first] = log.inter_token_times[np.repeat(has_all, counts)]
    if not (steps > 0).any():
        return Measurements(*np.zeros((3, 0)))
    tolerance = 0.5 * float(np.quantile(steps[steps > 0], 0.05))
    # Summed up request by request: over all of them small gaps would be lost in large times.
    since, first = np.cumsum(steps), log.arrival_times + log.times_to_first_token
    emitted = first[owner] + since - since[begins][owner]
    order, ends = np.argsort(emitted, kind="stable"), emitted[begins + o - 1]
    released = np.argsort(ends, kind="stable")
    clock, last = emitted[order], ends[released]
    work = _sums(np.where(is_first, s[owner], 1)[order])
    held = _sums(np.where(is_first, s[owner] + 1, 1)[order])
    freed = _sums((s + o)[released])
    # What came out of the same round is apart by less than the tolerance.
    ended = _sums(np.diff(clock, prepend=-np.inf) > tolerance)
    gaps = np.flatnonzero(~is_first)
    places = gaps - 1 - begins[owner[gaps]]
    opens = (places == 0) | (has_all[owner[gaps]] & (places % WINDOW == 0))
    windows = np.cumsum(opens) - 1
    # Of too many windows every second, third, ... is taken.
    taken = windows % max(1, int(windows[-1]) // MOST_WINDOWS) == 0
    gaps, windows = gaps[taken], windows[taken]
    before, after = emitted[gaps - 1] + tolerance, emitted[gaps] + tolerance
    left, reached = np.searchsorted(clock, before), np.searchsorted(clock, after)
    rounds = np.ones(len(gaps), dtype=np.int64)
    if has_all[o > 1].all():
        rounds = np.maximum(rounds, ended[reached] - ended[left])
    resident = held[reached] - freed[np.searchsorted(last, before)]
    columns = {"tokens": work[reached] - work[left], "kv_tokens": resident * rounds}
    rows = pandas.DataFrame({**columns, "seconds": steps[gaps], "rounds": rounds})
    sums = rows.groupby(windows).sum().assign(begun=pandas.Series(before).groupby(windows).min())
    sums = sums[sums["seconds"] > 0].sort_values("begun", kind="stable")
    names = ("tokens", "kv_tokens", "seconds")
    return Measurements(*((sums[name] / sums["rounds"]).to_numpy() for name in names))


def _sums(column: npt.NDArray[Any]) -> IntArray:
    """Return the sum before each entry, and the whole one."""
    return np.concatenate([[0], np.cumsum(column)])


def fit_rounds(rounds: Measurements, source: str = FIT) -> tuple[AffineTime, float]:
    """Fit a batch time to measured rounds, or say why that is useless.

    The second result is the mean absolute share by which rounds are off when they are predicted by
    a fit to the others.

    Parameters
    ----------
    rounds : Measurements
        In order of time.
    source : str, default FIT
        Where the rounds are from, for messages.

    Raises
    ------
    InvalidValueError
        Too few rounds, tokens that hardly vary, a coefficient below 0, or too large an error.
    """
    count, seconds = len(rounds.seconds), rounds.seconds
    if count < LEAST_ROWS:
        raise _refusal(f"has {count} rounds to go by and needs {LEAST_ROWS}", source)
    design = np.stack([np.ones(count), rounds.tokens, rounds.kv_tokens], axis=1)
    if np.linalg.cond(design / np.linalg.norm(design, axis=0)) > LARGEST_CONDITION:
        reason = "cannot separate the seconds of a round, of a token processed and of a token held"
        raise _refusal(f"{reason}, which hardly vary, or rise together", source)
    coefficients, off = _fit(design, seconds), np.empty(count)
    for block in np.array_split(np.arange(count), BLOCKS):
        others = np.setdiff1d(np.arange(count), block)
        predicted = design[block] @ _fit(design[others], seconds[others])
        off[block] = np.abs(predicted / seconds[block] - 1)
    shares, error = coefficients * design.mean(axis=0) / seconds.mean(), float(off.mean())
    if shares.min() < -NEGLIGIBLE or shares[0] <= 0:
        named = ", ".join(f"{one:.3g} s" for one in coefficients)
        raise _refusal(f"gives d0, d1 and d2 of {named}, of which one is below 0", source)
    if error > LARGEST_ERROR:
        most = f"more than {100 * LARGEST_ERROR:g} %"
        raise _refusal(f"is off by {100 * error:.1f} % in the mean, {most}", source)
    return AffineTime(*(max(0.0, float(f"{one:.6g}")) for one in coefficients)), error


def _fit(design: FloatArray, seconds: FloatArray) -> FloatArray:
    """Fit coefficients by least squares, weighted by 1 / predicted seconds."""
    expected, sizes = seconds, np.linalg.norm(design, axis=0)
    for _ in range(WEIGHINGS):
        weighted = design / sizes / expected[:, None]
        solution: FloatArray = np.linalg.lstsq(weighted, seconds / expected, rcond=None)[0]
        solution /= sizes
        expected = np.maximum(design @ solution, LEAST_EXPECTED * seconds)
    return solution


def _refusal(reason: str, source: str = FIT) -> InvalidValueError:
    return InvalidValueError(None, "--batch-time", source, f"{reason}: {WAY_OUT}")


def find_batch_time(
    text: str, log: RequestLog | None
) -> tuple[AffineTime | TiledTime, int | None, str]:
    """Find a batch time, M where it is that of a known machine, and where it is from.

    Parameters
    ----------
    text : str
        What `read_batch_time` reads, the path of a CSV file of measured rounds, or ``fit``.
    log : RequestLog or None
        The log whose inter-token times ``fit`` takes; None if it has no start times.

    Raises
    ------
    UnknownNameError
        Neither a preset, nor coefficients, nor measured tables, nor ``fit``, nor a file.
    InvalidValueError
        Coefficients out of range, no such measured tables, or a fit that is useless.
    OSError, FileFormatError
        The file cannot be read.
    """
    if text == FIT and log is None:
        raise _refusal("needs a log with start times, or with latencies and max_concurrency=N")
    if text == FIT and log is not None:
        rounds, of = round_measurements(log), "windows of the log's inter-token times"
    elif os.path.exists(text) or text.endswith(".csv"):
        rounds, of = Measurements.read(text), f"rounds measured in {Path(text).name}"
    else:
        found, limit = read_batch_time(text)
        return found, limit, f"{formula(found)} ({text})"
    fitted, error = fit_rounds(rounds, source=text)
    said = f"{formula(fitted, 3)} (fitted to {len(rounds.seconds)} {of}; off by "
    return fitted, None, f"{said}{100 * error:.1f} % in the mean, held out)"


def formula(time: AffineTime | TiledTime, digits: int = 6) -> str:
    """Write out the seconds of a round, coefficients to so many digits."""
    if isinstance(time, TiledTime):
        return f"a table over tokens in tiles of {time.tile}, and attention"
    d0, d1, d2 = (f"{one:.{digits}g} s" for one in (time.d0, time.d1, time.d2))
    return f"{d0} + {d1} a token processed + {d2} a token held"
