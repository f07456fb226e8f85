"""Doubts about the units of a log: combinations that no server has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from instances import RequestLog

LEAST_LOAD, LARGEST_LOAD = 0.01, 20.0
"""Least and largest load (machine seconds asked for per second) that raise no doubt about units."""

LONGEST_STEP, SHORTEST_STEP = 1.0, 5e-5
"""Median seconds per output token above which, and below which, latencies seem in a wrong unit."""


def doubts(log: RequestLog, load: float | None = None) -> Iterator[str]:
    """Yield a question to the user for each figure of a log that suggests a wrong unit.

    Latencies are checked only if the user named the columns of the log: logs of known tools state
    their units.

    Parameters
    ----------
    log : RequestLog
        The log.
    load : float or None, default None
        Machine seconds that requests ask for per second, see `Question.load`; None: not checked.
    """
    known = np.isfinite(log.latencies) & (log.format == "columns")
    if known.any():
        latency, span = float(log.latencies[known].mean()), float(log.arrival_times[-1])
        step = float(np.median(log.latencies[known] / log.output_lengths[known]))
        said = f"In doubt: the mean latency is {latency:,.5g} s, or {step:.3g} s per output token "
        said += f"in the median, and arrivals span {span:,.5g} s: are latencies in "
        if step > LONGEST_STEP and latency > span:
            yield said + "milliseconds (latency_ms)?"
        elif step < SHORTEST_STEP:
            yield said + "seconds (latency)?"
    if load is not None and not LEAST_LOAD <= load <= LARGEST_LOAD:
        named = " arrival_ms names milliseconds." if log.format == "columns" else ""
        said = f"In doubt: the load is {load:.2g} machine seconds per second: are arrivals"
        yield f"{said} ({log.time_unit}) and the batch time (seconds) in these units?{named}"
