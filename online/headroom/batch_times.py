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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from instances import InvalidValueError, RequestLog
from instances.arrays import FloatArray, IntArray
from instances.batch_time import AffineTime, TiledTime, preset_names
from instances.batch_time.presets import AFFINE
from instances.errors import UnknownNameError
from online.batch_time.measured_tables import FORM, PREFIX, read_batch_time
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

LEAST_VARIATION = 0.02
"""Standard deviation over mean, of tokens processed and of tokens resident, below which a
coefficient is not to be told from d0."""

ALIKE = 0.9999
"""Correlation of the two above which their coefficients are not to be told apart."""

WEIGHINGS = 4
"""Fits in turn, each with the weights that the one before it gives."""

LEAST_EXPECTED = 0.1
"""Share of its measured seconds that a row is expected to take at least, where weights are made."""

LEAST_D0 = 1e-9
"""Seconds that d0 has at least, rounded to six digits or not."""

NEGLIGIBLE = 0.02
"""Share of the seconds of a mean round up to which a negative coefficient counts as 0."""

WAY_OUT = "give --batch-time a preset, affine:d0,d1,d2 or other measured rounds"


class InterTokenFit(NamedTuple):
    """A fitted batch time, and how far it is from the log.

    Attributes
    ----------
    batch_time : AffineTime
        The fit to all rows.
    rows : int
        Windows of a request's gaps.
    error : float
        Mean absolute share by which rows are off when they are predicted by the others.
    """

    batch_time: AffineTime
    rows: int
    error: float


class TokenTimes(NamedTuple):
    """Times at which the tokens of each request came out; requests in any order.

    Attributes
    ----------
    prompt_lengths, output_lengths : int64 array
        Tokens, shape (n,).
    first : float64 array
        Seconds at which the first token came out, shape (n,).
    gaps : float64 array
        Seconds between tokens, ``output_lengths[i] - 1`` of each request after those of the one
        before.
    averaged : bool array
        Whether only the mean of a request's gaps is known, shape (n,).
    """

    prompt_lengths: IntArray
    output_lengths: IntArray
    first: FloatArray
    gaps: FloatArray
    averaged: npt.NDArray[np.bool_]


def token_times(log: RequestLog) -> TokenTimes:
    """Read off a log when the tokens came out.

    Raises
    ------
    InvalidValueError
        The log says too little.
    """
    outputs, counts = log.output_lengths, np.diff(log.inter_token_offsets)
    each = (counts == outputs - 1) & (counts > 0)
    means = np.where(outputs > 1, log.mean_inter_token_times, 0.0)
    known = np.isfinite(log.times_to_first_token) & (each | np.isfinite(means))
    if not known.all():
        raise _refusal(
            "needs the time to first token and the times between tokens of every request, and "
            f"{len(outputs) - int(known.sum())} of {len(outputs)} have none"
        )
    gaps = np.repeat(means, outputs - 1).astype(np.float64)
    # Every gap of a request that has them all takes the place of the mean.
    gaps[np.repeat(each, outputs - 1)] = log.inter_token_times[np.repeat(each, counts)]
    first = log.arrival_times + log.times_to_first_token
    return TokenTimes(log.prompt_lengths, outputs, first, gaps, ~each)


def round_measurements(times: TokenTimes) -> Measurements:
    """Make rounds of the gaps, in order of time; see the module."""
    import pandas

    s, o = times.prompt_lengths, times.output_lengths
    owner, begins = np.repeat(np.arange(len(o)), o), np.cumsum(o) - o
    is_first = np.zeros(len(owner), dtype=np.bool_)
    is_first[begins] = True
    steps = np.zeros(len(owner))
    steps[~is_first] = times.gaps
    # Summed up request by request: over all of them small gaps would be lost in large times.
    since = np.cumsum(steps)
    emitted = times.first[owner] + since - since[begins][owner]
    positive = times.gaps[times.gaps > 0]
    if not len(positive):
        return Measurements(*np.zeros((3, 0)))
    tolerance = 0.5 * float(np.quantile(positive, 0.05))
    order, ends = np.argsort(emitted, kind="stable"), emitted[begins + o - 1]
    released = np.argsort(ends, kind="stable")
    clock, last = emitted[order], ends[released]
    work, held, freed = (
        np.concatenate([[0], np.cumsum(column)])
        for column in (
            np.where(is_first, s[owner], 1)[order],
            np.where(is_first, s[owner] + 1, 1)[order],
            (s + o)[released],
        )
    )
    # What came out of the same round is apart by less than the tolerance.
    ended = np.concatenate([[0], np.cumsum(np.diff(clock, prepend=-np.inf) > tolerance)])
    gaps = np.flatnonzero(~is_first)
    places = gaps - 1 - begins[owner[gaps]]
    opens = np.where(times.averaged[owner[gaps]], places == 0, places % WINDOW == 0)
    windows = np.cumsum(opens) - 1
    # Of too many windows every second, third, ... is taken.
    taken = windows % max(1, int(windows[-1]) // MOST_WINDOWS) == 0
    gaps, windows = gaps[taken], windows[taken]
    before, after = emitted[gaps - 1] + tolerance, emitted[gaps] + tolerance
    left, reached = np.searchsorted(clock, before), np.searchsorted(clock, after)
    rounds = np.ones(len(gaps), dtype=np.int64)
    if not (times.averaged & (o > 1)).any():
        rounds = np.maximum(rounds, ended[reached] - ended[left])
    resident = held[reached] - freed[np.searchsorted(last, before)]
    columns = {"tokens": work[reached] - work[left], "kv_tokens": resident * rounds}
    rows = pandas.DataFrame({**columns, "seconds": steps[gaps], "rounds": rounds})
    sums = rows.groupby(windows).sum().assign(begun=pandas.Series(before).groupby(windows).min())
    sums = sums[sums["seconds"] > 0].sort_values("begun", kind="stable")
    names = ("tokens", "kv_tokens", "seconds")
    return Measurements(*((sums[name] / sums["rounds"]).to_numpy() for name in names))


def fit_rounds(rounds: Measurements, source: str = FIT) -> InterTokenFit:
    """Fit a batch time to measured rounds, or say why that is useless.

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
    columns, count = (rounds.tokens, rounds.kv_tokens), len(rounds.seconds)
    if count < LEAST_ROWS:
        raise _refusal(f"has {count} rounds to go by and needs {LEAST_ROWS}", source)
    for name, column in zip(("processed", "resident"), columns, strict=True):
        if float(column.std()) < LEAST_VARIATION * float(column.mean()):
            alike = f"all rounds have about {column.mean():.4g} of them"
            raise _refusal(f"cannot tell what a token {name} costs: {alike}", source)
    if abs(np.corrcoef(*columns)[0, 1]) > ALIKE:
        reason = "cannot tell tokens processed from tokens resident: they rise together"
        raise _refusal(reason, source)
    design, off = np.stack([np.ones(count), *columns], axis=1), np.empty(count)
    for block in np.array_split(np.arange(count), BLOCKS):
        others = np.setdiff1d(np.arange(count), block)
        predicted = design[block] @ _fit(design[others], rounds.seconds[others])
        off[block] = np.abs(predicted / rounds.seconds[block] - 1)
    coefficients, error = _fit(design, rounds.seconds), float(off.mean())
    shares = coefficients * design.mean(axis=0) / rounds.seconds.mean()
    for name, value, share in zip(("d0", "d1", "d2"), coefficients, shares, strict=True):
        if share < -NEGLIGIBLE or (name == "d0" and share <= 0):
            raise _refusal(f"gives {name} = {value:.3g} s, below 0", source)
    if error > LARGEST_ERROR:
        most = f"more than {100 * LARGEST_ERROR:g} %"
        raise _refusal(f"is off by {100 * error:.1f} % in the mean, {most}", source)
    d0, d1, d2 = (max(0.0, float(f"{one:.6g}")) for one in coefficients)
    return InterTokenFit(AffineTime(max(d0, LEAST_D0), d1, d2), count, error)


def fit_log(log: RequestLog) -> InterTokenFit:
    """Fit a batch time to the inter-token times of a log.

    Parameters and errors are those of `fit_rounds`; a log that does not have the time to first
    token and the times between tokens of every request is refused too.
    """
    return fit_rounds(round_measurements(token_times(log)))


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
    if text in preset_names() or text.startswith((AFFINE.partition(":")[0] + ":", PREFIX)):
        found, limit = read_batch_time(text)
        return found, limit, f"{formula(found)} ({text})"
    if text == FIT:
        if log is None:
            raise _refusal("needs a log with start times, or with latencies and max_concurrency=N")
        fitted, of = fit_log(log), "windows of the log's inter-token times"
    elif os.path.exists(text):
        fitted = fit_rounds(Measurements.read(text), source=text)
        of = f"rounds measured in {Path(text).name}"
    else:
        raise UnknownNameError("batch time", text, [*preset_names(), AFFINE, FORM, FIT, "a file"])
    said = (
        f"{formula(fitted.batch_time, 3)} (fitted to {fitted.rows} {of}; "
        f"off by {100 * fitted.error:.1f} % in the mean, held out)"
    )
    return fitted.batch_time, None, said


def formula(time: AffineTime | TiledTime, digits: int = 6) -> str:
    """Write out the seconds of a round, coefficients to so many digits."""
    if isinstance(time, TiledTime):
        return f"a table over tokens in tiles of {time.tile}, and attention"
    d0, d1, d2 = (f"{one:.{digits}g} s" for one in (time.d0, time.d1, time.d2))
    return f"{d0} + {d1} a token processed + {d2} a token held"
