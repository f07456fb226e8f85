"""Doubts about the units of a log: combinations that no server has."""

from __future__ import annotations

import numpy as np

from instances import RequestLog

LEAST_LOAD, LARGEST_LOAD = 0.01, 20.0
"""A server whose load is outside of these was hardly measured in the units that are taken."""

LONGEST_STEP, SHORTEST_STEP = 1.0, 5e-5
"""Seconds per output token that no server takes, in the median of a log."""


def doubts(log: RequestLog, load: float | None = None) -> list[str]:
    """List the combinations in a log that no server has, each in a line that asks.

    Latencies are doubted where columns were named by the user: tools say in which units they are.

    Parameters
    ----------
    log : RequestLog
        The log.
    load : float or None, default None
        Machine seconds asked for in a second, as a question has it.
    """
    found = []
    whole = np.flatnonzero(np.isfinite(log.latencies) & (log.format == "columns"))
    if len(whole):
        latency, span = float(log.latencies[whole].mean()), float(log.arrival_times[-1])
        step = float(np.median(log.latencies[whole] / log.output_lengths[whole]))
        per_token = f"{step:.3g} s per output token in the median"
        if step > LONGEST_STEP and latency > span:
            found.append(
                f"the mean latency of {latency:,.0f} s is longer than the log, whose arrivals span "
                f"{span:,.3g} s ({per_token}): are latencies in milliseconds? Then name them with "
                "latency_ms"
            )
        elif step < SHORTEST_STEP:
            found.append(
                f"the mean latency is {latency:.3g} s ({per_token}): are latencies in seconds? "
                "Then name them with latency"
            )
    if load is not None and not LEAST_LOAD <= load <= LARGEST_LOAD:
        bound = f"below {LEAST_LOAD:g}" if load < 1 else f"above {LARGEST_LOAD:g}"
        hint = "? arrival_ms names arrivals in milliseconds" if log.format == "columns" else "?"
        found.append(
            f"the load of {load:.2g} (machine seconds asked for in a second) is {bound}: are "
            f"arrivals ({log.time_unit}) and the batch time (seconds) in these units{hint}"
        )
    return [f"In doubt: {one}" for one in found]
