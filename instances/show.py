"""Show a problem, a schedule or a run in a notebook: facts, and pictures by matplotlib as SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.errors import printable

COLUMNS = 600
"""Steps of a curve; each shows the largest value of some consecutive rounds."""

LONGEST_PICTURE = 20_000_000
"""Rounds beyond which memory is not drawn."""

LONGEST_NAME = 80
"""Characters of a name."""


def svg(figure: Any) -> str:
    """Write a matplotlib figure as an SVG element; equal figures give equal text."""
    import matplotlib

    stream = io.StringIO()
    # Letters stay letters.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "llm-hindsight"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)


def html_of(
    kind: str, name: object, facts: Mapping[str, object], *drawings: Callable[[Any], None]
) -> str:
    """Write facts in a table beside pictures; each drawing takes the axes of a picture."""
    from matplotlib.figure import Figure

    def line(value: object) -> str:
        text = printable(str(value))
        return escape(text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…")

    pictures = ""
    if drawings:
        figure = Figure(figsize=(4.4, 2.2 * len(drawings)), layout="constrained")
        axes = figure.subplots(len(drawings), squeeze=False)[:, 0]
        for ax, draw in zip(axes, drawings, strict=True):
            draw(ax)
        pictures = svg(figure)
    rows = "".join(
        f"<tr><th>{line(k)}</th><td>{line(value)}</td></tr>" for k, value in facts.items()
    )
    title = f"<b>{line(kind)}</b> {line(name or '')}"
    style = "display:flex;flex-wrap:wrap;gap:4px 24px;align-items:flex-start"
    return f'<div>{title}<div style="{style}"><table>{rows}</table>{pictures}</div></div>'


def problem_html(problem: Any) -> str:
    """Show an instance or a workload: facts, lengths as dots, arrivals as a curve."""
    prompts, outputs, times = (
        problem.prompt_lengths,
        problem.output_lengths,
        np.sort(problem.arrival_times),
    )
    begin, end = float(times[0]), float(times[-1])

    def span(lengths: IntArray) -> str:
        return f"{lengths.min()} to {lengths.max()}, mean {lengths.mean():.4g}"

    def draw_lengths(ax: Any) -> None:
        ax.plot(prompts, outputs, ".", alpha=0.6, rasterized=True)
        ax.set(xlabel="prompt length (tokens)", ylabel="output length (tokens)")

    def draw_arrivals(ax: Any) -> None:
        ax.step(times, np.arange(1, len(times) + 1), where="post")
        ax.set(xlabel=f"time ({problem.unit})", ylabel="requests arrived")

    facts: dict[str, object] = {
        "requests": len(prompts),
        "memory limit M": f"{problem.memory_limit} tokens",
        f"arrival times ({problem.unit})": f"{begin:.6g} to {end:.6g}",
        "prompt lengths": span(prompts),
        "output lengths": span(outputs),
        "digest": problem.digest[:12],
    }
    if problem.memory_rule.told:
        facts["memory"] = problem.memory_rule.told
    if getattr(problem, "is_weighted", False):
        facts["weights"] = span(problem.weights)
    drawings = [draw_lengths, draw_arrivals] if begin < end else [draw_lengths]
    return html_of(type(problem).__name__, problem.name, facts, *drawings)


def draw_memory(
    ax: Any, starts: FloatArray, ends: FloatArray, memory: IntArray, limit: int, unit: str
) -> None:
    """Draw memory over rounds and M; a step shows the largest value of its rounds.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The axes.
    starts, ends : float64 array
        When each round begins and ends, shape (rounds,).
    memory : int64 array
        Tokens held in each, shape (rounds,).
    limit : int
        M.
    unit : str
        Unit of the clock.
    """
    firsts = np.arange(0, len(memory), -(-len(memory) // COLUMNS))
    begin, end = starts[firsts], ends[np.append(firsts[1:], len(memory)) - 1]
    largest, none = np.maximum.reduceat(memory, firsts), np.zeros(len(firsts))
    x, y = np.stack([begin, begin, end, end]), np.stack([none, largest, largest, none])
    ax.fill_between(x.T.ravel(), y.T.ravel(), alpha=0.6, linewidth=0)
    ax.axhline(limit, color="#c1121f", linewidth=1)
    ax.set(xlabel=f"time ({unit})", ylabel=f"KV cache (tokens), M = {limit}", ylim=(0, None))
