"""Conditions of a measurement that a user can change, and sources of request lengths."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from instances import FileFormatError, InvalidValueError, UnknownNameError
from instances.arrays import IntArray
from instances.batch_time import BatchTime, parse_batch_time, preset
from instances.files import read_bytes
from instances.generators.length_laws import Law, draw_lengths, draw_order, moments
from instances.generators.synthetic_traces import (
    CONVERSATION_OUTPUTS,
    CONVERSATION_PROMPTS,
    SERVED_OUTPUTS,
    SERVED_PROMPTS,
    SUMMARY_OUTPUTS,
    SUMMARY_PROMPTS,
)

Given: TypeAlias = Mapping[str, Any]
"""Changed conditions by name: ``lmsys`` and ``arxiv`` (a `LengthFile`), ``lengths`` (name of the
law of synthetic conversations), ``batch-time`` (text) and ``memory`` (tokens)."""

DATA_SETS = {"lmsys": ("words", "tokens"), "arxiv": ("tokens",)}
"""LMSYS-Chat-1M and the arXiv summaries, with the units that their papers count in."""

COLUMNS = {
    ("prompt_words", "output_words"): "words",
    ("prompt_tokens", "output_tokens"): "tokens",
    ("num_prefill_tokens", "num_decode_tokens"): "tokens",
}
MACHINE = preset("llama-2-70b-2xa100")
"""Machine of [J25]: its batch time, and M = 16,492."""


@dataclass(frozen=True)
class LengthFile:
    """A CSV file of request lengths with the columns of `COLUMNS`. Its digest identifies it.

    Attributes
    ----------
    path, unit, digest, rows : Path, str, str, int
        The file, its unit (words or tokens), the SHA-256 of its bytes, and its number of requests.
    """

    path: Path
    unit: str
    digest: str
    rows: int

    def lengths(self) -> tuple[IntArray, IntArray]:
        """Return prompts and outputs, shape (rows,) each."""
        _, digest, prompts, outputs = _read(self.path)
        if digest != self.digest:
            raise FileFormatError(self.path, "has changed since it was read first")
        return prompts, outputs


def read_lengths(path: Path) -> LengthFile:
    """Read a CSV with columns of `COLUMNS`; other columns are ignored.

    Raises
    ------
    OSError, FileFormatError
        The file cannot be read, or is not such a file.
    """
    unit, digest, prompts, _ = _read(path)
    return LengthFile(path, unit, digest, len(prompts))


@lru_cache(maxsize=4)
def _read(path: Path) -> tuple[str, str, IntArray, IntArray]:
    content = read_bytes(path)
    try:
        table = pd.read_csv(BytesIO(content), encoding="utf-8-sig", dtype=str)
    except ValueError as error:
        raise FileFormatError(path, f"is not a table: {error}") from None
    fitting = [names for names in COLUMNS if set(names) <= set(table.columns)]
    if len(fitting) != 1:
        wanted = ", or ".join(" and ".join(names) for names in COLUMNS)
        raise FileFormatError(path, f"needs the columns {wanted} of one unit")
    if table.empty:
        raise FileFormatError(path, "holds no requests")
    found = []
    for name in fitting[0]:
        numbers = pd.to_numeric(table[name], errors="coerce")
        bad = ~((numbers >= 1) & (numbers % 1 == 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            reason = f"{name} {table[name][row]!r} is not a positive whole number"
            raise FileFormatError(path, reason, row=row + 2)
        found.append(numbers.to_numpy(np.int64))
    return COLUMNS[fitting[0]], hashlib.sha256(content).hexdigest(), *found


def described(file: LengthFile | None) -> str:
    """Return a text that describes a file of lengths, or ``"synthetic"`` for None.

    The text has the number of requests and their mean lengths, and no length of a single request.
    """
    if file is None:
        return "synthetic"
    prompts, outputs = (side.mean() for side in file.lengths())
    means = f"{prompts:.2f} and {outputs:.2f} {file.unit} on average"
    return f"a file of {file.rows:,} requests, {means}, SHA-256 {file.digest}"


def override(given: Given, name: str, value: str) -> Given:
    """Return ``given`` with one more changed condition, after a check.

    Raises
    ------
    UnknownNameError, InvalidValueError, FileFormatError
        The name or the value is not valid.
    """
    checked: Any = value
    if name in DATA_SETS:
        checked = read_lengths(Path(value))
        if checked.unit not in DATA_SETS[name]:
            reason = f"counts {checked.unit}, and lengths of {name} are in {DATA_SETS[name][0]}"
            raise FileFormatError(checked.path, reason)
    elif name == "lengths":
        if value not in LAWS:
            raise UnknownNameError("law of lengths", value, list(LAWS))
    elif name == "batch-time":
        parse_batch_time(value)
    elif name == "memory":
        if not value.isdecimal() or int(value) < 1:
            raise InvalidValueError(None, "memory", value, "is not a number of tokens")
        checked = int(value)
    else:
        raise UnknownNameError("condition", name, [*DATA_SETS, "lengths", "batch-time", "memory"])
    return {**given, name: checked}


def conversations_of(given: Given, own: str) -> Source:
    """Return the source of conversations: a file or law in ``given``, or ``own`` without one."""
    source: Source = given.get("lmsys") or given.get("lengths") or own
    return source


def seconds_of(given: Given, own: BatchTime = MACHINE.batch_time) -> BatchTime:
    """Return the batch time in ``given``, or ``own`` without one."""
    return parse_batch_time(given["batch-time"])[0] if "batch-time" in given else own


@dataclass(frozen=True)
class MomentsOfSample:
    """Moments of the sample in [C25] Section 6, in tokens. The variance is in squared tokens."""

    smallest: int
    largest: int
    mean: float
    median: float
    variance: float


SAMPLED_PROMPTS = MomentsOfSample(1, 468, 41, 11, 4961)
SAMPLED_OUTPUTS = MomentsOfSample(1, 883, 85, 43, 9702)


@cache
def three_moment_law(published: MomentsOfSample) -> Law:
    """Return a rounded generalised gamma law cut at the largest length, shape (largest,).

    Its scale follows from the median. Its two shape parameters follow from mean and variance, which
    are those after rounding and cutting.
    """
    from scipy.optimize import root
    from scipy.stats import gengamma

    edges = np.arange(1, published.largest) + 0.5

    def law(logarithms: Sequence[float]) -> Law:
        shapes = gengamma(*np.exp(logarithms))
        scaled = edges / published.median * shapes.median()
        return np.diff(np.concatenate([[0.0], shapes.cdf(scaled), [1.0]]))

    def departure(logarithms: Sequence[float]) -> list[float]:
        mean, variance = moments(law(logarithms))
        return [mean / published.mean - 1, np.sqrt(variance / published.variance) - 1]

    found = root(departure, (0.5, -0.5), tol=1e-12)
    if not found.success or max(map(abs, departure(found.x))) > 1e-6:
        raise ArithmeticError(f"no generalised gamma law has the moments of {published}")
    return law(found.x)


LAWS = ("lmsys-like", "conversations", "three-moments")
"""Laws of synthetic conversations, with means and medians of [W25], of [J25], moments of [C25]."""

Source: TypeAlias = LengthFile | str
"""Source of lengths: a user's file, the name of a law in `LAWS`, or ``"summaries"``."""


@cache
def _laws(name: str) -> tuple[Law, Law]:
    if name == "three-moments":
        return three_moment_law(SAMPLED_PROMPTS), three_moment_law(SAMPLED_OUTPUTS)
    prompts, outputs = {
        "lmsys-like": (CONVERSATION_PROMPTS, CONVERSATION_OUTPUTS),
        "conversations": (SERVED_PROMPTS, SERVED_OUTPUTS),
        "summaries": (SUMMARY_PROMPTS, SUMMARY_OUTPUTS),
    }[name]
    return prompts.law, outputs.law


def drawn_lengths(
    source: Source, rng: np.random.Generator, count: int, longest: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Return prompts and outputs, shape (count,) each.

    From a file they are rows drawn without repetition, with lengths up to ``longest``. From a law
    they are independent draws.

    Raises
    ------
    FileFormatError
        The file holds fewer requests.
    """
    if isinstance(source, str):
        prompt_law, output_law = _laws(source)
        return draw_lengths(rng, prompt_law, count), draw_lengths(rng, output_law, count)
    prompts, outputs = source.lengths()
    kept = np.flatnonzero((prompts <= longest[0]) & (outputs <= longest[1]))
    if len(kept) < count:
        limits = f"with prompts up to {longest[0]:,} and outputs up to {longest[1]:,} {source.unit}"
        reason = f"holds {len(kept):,} requests {limits}, and {count:,} are needed"
        raise FileFormatError(source.path, reason)
    chosen = kept[draw_order(rng, len(kept))[:count]]
    return prompts[chosen], outputs[chosen]
