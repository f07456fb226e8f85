"""Find a batch time by name, read it from a file, or fit it to the inter-token times of a log.

**Why inter-token times suffice.** An engine works in rounds. A round that decodes a request ends
with a token of this request. So the time between two tokens of a request is the length of one
round, or of several rounds if the request was preempted or held in between. Each round lasts

    seconds = d0 + d1 (tokens processed) + d2 (tokens resident).

Both numbers of tokens can be counted in the log. A request with a prompt of s tokens holds s + k
tokens at its k-th output token, and one of its tokens is processed in each round. Its prompt is
processed in the round that ends with its first output token. The log does not show four things: in
which rounds the chunks of a prompt were processed (all are counted in the last), which tokens were
processed again, what the machine does between rounds, and which delay clients add. All of this is
in the error of the fit.

**Method.** A gap (u, v] is the time between two output tokens of a request. Its tokens processed
are the output tokens of all requests that came out in (u + e, v + e], and the prompts of requests
whose first token is among these. Its resident tokens are the tokens held at v + e by all requests
that were in service after u + e. Its rounds are the groups of output tokens in (u + e, v + e] that
are more than e apart. The tolerance e is half of the shortest gaps. A busy server sends the tokens
of one round over a third of the length of the round, and a smaller tolerance would count this round
twice.

A row of the fit is the sum over `WINDOW` gaps of a request, divided by their number of rounds. So
tokens that are counted in a wrong gap, such as chunks, have little effect. If the log has only the
mean gap of a request, its tokens are spread evenly, its row is the mean over its gaps, and each gap
counts as one round. Rows are weighted by 1 / predicted seconds, so that errors are relative.
Weights of 1 / measured seconds would favour rounds that happened to be short, and the fit would
make every round too short.

**Error.** The rows are cut into `BLOCKS` blocks of consecutive rows in time. Each block is
predicted by a fit to the other blocks. The error of the fit is the mean of
|predicted - measured| / measured over all rows.
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

FIT, WEAK_FIT = "fit", "doubt about the fit"
"""Value of ``--batch-time`` that fits d0, d1, d2 to a log, and a fact about doubts."""

BLOCKS = 5
"""Number of folds of the cross-validation that measures the error of a fitted batch time."""

LEAST_ROWS = 30
"""Least number of measured rounds for a fit of a batch time."""

WINDOW = 16
"""Number of successive inter-token times of a request that are averaged to one row of the fit."""

MOST_WINDOWS = 100_000
"""Approximate largest number of rows in a fit. If a log has more, only every k-th is used."""

LARGEST_ERROR = 0.25
"""Largest mean of |predicted - measured| / measured seconds with which a fit is accepted."""

LARGEST_CONDITION = 150.0
"""Largest condition number of a fit's design matrix. Above it columns hardly vary or correlate."""

WEIGHINGS = 4
"""Number of successive least-squares fits. Each fit takes its weights from the fit before it."""

LEAST_EXPECTED = 0.1
"""Rows have the weight 1 / max(predicted seconds, this share of the measured seconds)."""

NEGLIGIBLE = 0.02
"""A coefficient below 0 is set to 0 if its term is at most this share of a mean round's seconds."""

WAY_OUT = "give --batch-time a preset, affine:d0,d1,d2 or other measured rounds"


def round_measurements(log: RequestLog) -> Measurements:
    """Estimate rounds (tokens processed, tokens resident, seconds) from inter-token times of a log.

    Each row is a mean over the rounds between `WINDOW` tokens of a request. Rows are in order of
    time. The docstring of the module describes the method.

    Raises
    ------
    InvalidValueError
        The log lacks the time to first token or the times between tokens of a request.
    """
    import pandas

    s, o = log.prompt_lengths, log.output_lengths
    counts = np.fromiter(map(len, log.inter_token_times), np.int64, len(log))
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
    # If the log has all inter-token times of a request, use these instead of their mean.
    exact = [np.zeros(0), *log.inter_token_times[has_all]]
    steps[has_all[owner] & ~is_first] = np.concatenate(exact)
    if not (steps > 0).any():
        return Measurements(*np.zeros((3, 0)))
    tolerance = 0.5 * float(np.quantile(steps[steps > 0], 0.05))
    # ``emitted`` is the time of each token: the time of the request's first token, plus the sum of
    # its inter-token times since then.
    since, first = np.cumsum(steps), log.arrival_times + log.times_to_first_token
    emitted = first[owner] + since - since[begins][owner]
    order, ends = np.argsort(emitted, kind="stable"), emitted[begins + o - 1]
    released = np.argsort(ends, kind="stable")
    clock, last = emitted[order], ends[released]
    work = _sums(np.where(is_first, s[owner], 1)[order])
    held = _sums(np.where(is_first, s[owner] + 1, 1)[order])
    freed = _sums((s + o)[released])
    # If a token comes at most the tolerance after the token before it, both are of the same round.
    ended = _sums(np.diff(clock, prepend=-np.inf) > tolerance)
    gaps = np.flatnonzero(~is_first)
    places = gaps - 1 - begins[owner[gaps]]
    opens = (places == 0) | (has_all[owner[gaps]] & (places % WINDOW == 0))
    windows = np.cumsum(opens) - 1
    # Above `MOST_WINDOWS` windows, only every second, third, ... window is used.
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
    """Return 0 and the cumulative sums of a column: entry k is the sum of the first k entries."""
    return np.concatenate([[0], np.cumsum(column)])


def fit_rounds(rounds: Measurements, source: str = FIT) -> tuple[AffineTime, float]:
    """Fit d0 + d1 (tokens processed) + d2 (tokens resident) to the seconds of measured rounds.

    The second result is the cross-validated error, the mean of |predicted - measured| / measured:
    each of `BLOCKS` blocks of rounds is predicted by a fit to the other blocks.

    Parameters
    ----------
    rounds : Measurements
        Measured rounds in order of time.
    source : str, default FIT
        Origin of the rounds, for error messages.

    Raises
    ------
    InvalidValueError
        There are too few rounds, numbers of tokens hardly vary, a fitted coefficient is below 0, or
        the error is above `LARGEST_ERROR`.
    """
    count, seconds = len(rounds.seconds), rounds.seconds
    if count < LEAST_ROWS:
        raise _refusal(f"has {count} rounds, and a fit needs {LEAST_ROWS}", source)
    design = np.stack([np.ones(count), rounds.tokens, rounds.kv_tokens], axis=1)
    if np.linalg.cond(design / np.linalg.norm(design, axis=0)) > LARGEST_CONDITION:
        reason = "cannot separate the seconds of a round, of a token processed and of a token held"
        raise _refusal(f"{reason}: tokens hardly vary, or rise together", source)
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


def fit_doubts(log: RequestLog, d0: float) -> dict[str, str]:
    """Return the fact `WEAK_FIT` if gaps are means, or if d0 is above the shortest 5 % of them."""
    lists = [one for one in log.inter_token_times if len(one) > 1]
    if all(np.ptp(one) == 0 for one in lists):
        return {WEAK_FIT: "the log has mean gaps between tokens only"}
    shortest = float(np.quantile(np.concatenate(lists), 0.05))
    reason = f"d0 is above the shortest gaps between tokens, {shortest:.3g} s"
    return {WEAK_FIT: reason} if d0 > shortest else {}


def _fit(design: FloatArray, seconds: FloatArray) -> FloatArray:
    """Fit coefficients by least squares, with each row weighted by 1 / predicted seconds.

    ``design`` has shape (rows, coefficients), ``seconds`` has shape (rows,). `WEIGHINGS` fits are
    made, each with the predictions of the fit before it. So squares of relative errors are
    minimised.
    """
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
    """Return the batch time that a text names, the memory limit of its machine, and a description.

    The memory limit (tokens) is None unless the text names a machine for which it is known. The
    description has the formula and the origin of the batch time, for the headroom report.

    Parameters
    ----------
    text : str
        A batch time for `read_batch_time`, the path of a CSV file of measured rounds, or ``fit``.
    log : RequestLog or None
        The log whose inter-token times ``fit`` uses; None if it has no start times.

    Raises
    ------
    UnknownNameError
        The text is not a preset, coefficients, measured tables, ``fit``, or a file.
    InvalidValueError
        Coefficients are out of range, measured tables do not exist, or `fit_rounds` refuses a fit.
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
    """Write the formula for the seconds of a round, with coefficients to ``digits`` digits."""
    if isinstance(time, TiledTime):
        return f"a table over tokens in tiles of {time.tile}, and attention"
    d0, d1, d2 = (f"{one:.{digits}g} s" for one in (time.d0, time.d1, time.d2))
    return f"{d0} + {d1} a token processed + {d2} a token held"
