"""A batch time as a command line names it: a preset, coefficients, measured rounds, the log."""

from __future__ import annotations

import os
from pathlib import Path

from instances import RequestLog
from instances.batch_time import AffineTime, TiledTime, parse_batch_time, preset_names
from instances.batch_time.presets import AFFINE
from instances.errors import UnknownNameError
from online.batch_time.measurements import Measurements

from .inter_token_fit import LARGEST_ERROR, InterTokenFit, fit_log, fit_rounds

FIT = "fit"
"""How the log's own inter-token times are asked for."""


def preset_memory_limit(text: str) -> int | None:
    """M of the preset that the text names, tokens; None where it names something else.

    Raises
    ------
    UnknownNameError
        Neither a preset, nor coefficients, nor ``fit``, nor a file.
    InvalidValueError
        Coefficients that are not three numbers in their ranges.
    """
    if _needs_no_file(text):
        return parse_batch_time(text)[1]
    if text != FIT and not os.path.exists(text):
        raise UnknownNameError("batch time", text, [*preset_names(), AFFINE, FIT, "a file"])
    return None


def _needs_no_file(text: str) -> bool:
    return text in preset_names() or text.startswith(AFFINE.partition(":")[0] + ":")


def find_batch_time(
    text: str, log: RequestLog, largest_error: float = LARGEST_ERROR
) -> tuple[AffineTime | TiledTime, str]:
    """A batch time, and where it is from.

    Parameters
    ----------
    text : str
        A preset, ``affine:d0,d1,d2``, the path of a CSV file of measured rounds, or ``fit``.
    log : RequestLog
        Whose inter-token times ``fit`` takes.
    largest_error : float, default LARGEST_ERROR
        Of a fit.

    Raises
    ------
    UnknownNameError
        None of these.
    InvalidValueError
        Coefficients out of range, or a fit that is useless.
    OSError, FileFormatError
        The file cannot be read.
    """
    preset_memory_limit(text)
    if _needs_no_file(text):
        found = parse_batch_time(text)[0]
        return found, f"{formula(found)} ({text})"
    if text == FIT:
        fitted, of = fit_log(log, largest_error), "windows of the log's inter-token times"
    else:
        fitted = fit_rounds(Measurements.read(text), largest_error)
        of = f"rounds measured in {Path(text).name}"
    return fitted.batch_time, f"{formula(fitted.batch_time)} ({_quality(fitted, of)})"


def _quality(fitted: InterTokenFit, of: str) -> str:
    return f"fitted to {fitted.rows} {of}; off by {100 * fitted.error:.1f} % in the mean, held out"


def formula(time: AffineTime | TiledTime) -> str:
    """Seconds of a round, written out."""
    if isinstance(time, TiledTime):
        return f"a table over tokens in tiles of {time.tile}, and attention"
    return f"{time.d0:g} s + {time.d1:g} s a token processed + {time.d2:g} s a token held"
