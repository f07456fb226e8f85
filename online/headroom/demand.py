"""What the requests ask of the machine whatever the scheduler: their own time, and the load.

As in `hindsight.seconds.machine_bounds`, in floats: these figures describe, they prove nothing.
"""

from __future__ import annotations

import numpy as np

from instances import Workload
from instances.arrays import FloatArray
from instances.batch_time import BatchTime


def own_seconds(workload: Workload, batch_time: BatchTime) -> FloatArray:
    """Seconds from arrival to completion of each request alone on the machine, shape (n,).

    Its prompt is processed at once; no scheduler serves it faster.
    """
    parts = [d0 * o + work for d0, o, work, _ in _parts(workload, batch_time)]
    longest: FloatArray = np.max(parts, axis=0)
    return longest


def load(workload: Workload, batch_time: BatchTime) -> float | None:
    """Machine seconds asked for in a second of the log, from its first arrival to its last.

    A request asks for d1 a token processed and d2 + d0 / M a token held for a round, which is
    what it costs in rounds that fill the memory: above 1 nobody keeps up. None where all arrive at
    once.
    """
    span = float(workload.arrival_times[-1] - workload.arrival_times[0])
    if span <= 0:
        return None
    limit = workload.memory_limit
    asked = [
        float((work + d0 / limit * held).sum())
        for d0, _, work, held in _parts(workload, batch_time)
    ]
    return max(asked) / span


def _parts(
    workload: Workload, batch_time: BatchTime
) -> list[tuple[float, FloatArray, FloatArray, FloatArray]]:
    """Of each minorant d0, rounds, seconds beyond d0 in them, tokens held in them, summed up."""
    from hindsight.seconds.minorants import affine_minorants

    s, o = (
        column.astype(np.float64) for column in (workload.prompt_lengths, workload.output_lengths)
    )
    held = o * s + o * (o + 1) / 2 - workload.memory_rule.unstored * o
    return [
        (float(one.d0), o, float(one.d1) * (s + o - 1) + float(one.d2) * held, held)
        for one in affine_minorants(batch_time, workload.memory_limit)
    ]
