"""The queue M/D^[a,c]/1: Poisson arrivals, batches of a to c customers, constant service time.

Requests of one output token are this queue exactly: with room for c of them in memory and rounds of
constant length, a = 1. WAIT with one type and threshold n is the case a = c = n.

Let q be the number waiting when a service ends and A the arrivals during one, Poisson with mean
alpha = lambda D. Then q' = max(q - c, 0) + A whatever a is, and the generating function of
R = max(q - c, 0) is N(z) / (z^c - e^(alpha (z - 1))) with N(z) = sum_{k < c} p_k (z^c - z^k),
p_k = P(q = k). The roots of the denominator in the unit disk, 1 and z_1 .. z_{c-1}, are roots of N,
which determines it (Bailey 1954). The mean queue follows from one cycle of idling and serving, the
mean wait from Little's law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from instances import InvalidValueError
from instances.validation import as_integer, as_number


@dataclass(frozen=True)
class BatchServiceQueue:
    """Stationary figures of M/D^[a,c]/1; waits are from arrival to the start of service.

    Attributes
    ----------
    utilization : float
        lambda D / c.
    left_behind : float
        E[R], mean number that a full batch leaves behind.
    left_at_departures : float64 array
        P(q = k) at the ends of services, shape (c,).
    mean_queue : float
        Mean number waiting at a random time.
    mean_wait : float
        Seconds, where a service starts as soon as the server is free and a customers wait.
    mean_wait_at_ticks : float
        Seconds, where services of up to c start at the ticks of a clock, one each D, whether or not
        anybody waits: E[R] / lambda + D / 2.
    """

    utilization: float
    left_behind: float
    left_at_departures: npt.NDArray[np.float64]
    mean_queue: float
    mean_wait: float
    mean_wait_at_ticks: float


def batch_service_queue(
    arrival_rate: float, service_time: float, batch_size: int, smallest_batch: int = 1
) -> BatchServiceQueue:
    """The queue M/D^[a,c]/1 in closed form; M/D/1 is a = c = 1.

    Parameters
    ----------
    arrival_rate : float
        lambda, customers a second.
    service_time : float
        D, seconds.
    batch_size : int
        c.
    smallest_batch : int, default 1
        A <= c: the server waits until that many wait.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A number out of its range, or lambda D >= c.
    """
    rate = as_number(arrival_rate, "queue", "arrival_rate", above=0)
    duration = as_number(service_time, "queue", "service_time", above=0)
    c = as_integer(batch_size, "queue", "batch_size", minimum=1)
    a = as_integer(smallest_batch, "queue", "smallest_batch", minimum=1, maximum=c)
    alpha = rate * duration
    if alpha >= c:
        raise InvalidValueError("queue", "utilization", alpha / c, "is not below 1")
    roots = _roots(alpha, c)
    left_behind = float(np.sum(1 / (1 - roots)).real) - (c * (c - 1) - alpha**2) / (2 * (c - alpha))
    # N(z) = (c - alpha) (z - 1) prod (z - z_k) / (1 - z_k); its coefficient of z^k is -p_k, k < c.
    # On the unit circle |N| <= 2, so interpolation there is accurate to round-off for every c,
    # which multiplying the factors out is not.
    circle = np.exp(2j * np.pi * np.arange(c + 1) / (c + 1))
    logs = np.log(circle[1:, None] - roots).sum(axis=1) - np.log(1 - roots).sum()
    values = np.concatenate([[0.0], (c - alpha) * (circle[1:] - 1) * np.exp(logs)])
    coefficients = np.fft.fft(values) / (c + 1)
    waiting_left = np.maximum(-coefficients[:c].real, 0.0)
    idle = sum(float(waiting_left[k]) * (a - k) for k in range(a)) / rate
    idle_area = sum(float(waiting_left[k]) * sum(range(k, a)) for k in range(a)) / rate
    area = left_behind * duration + rate * duration**2 / 2 + idle_area
    mean_queue = area / (duration + idle)
    return BatchServiceQueue(
        utilization=alpha / c,
        left_behind=left_behind,
        left_at_departures=waiting_left,
        mean_queue=mean_queue,
        mean_wait=mean_queue / rate,
        mean_wait_at_ticks=left_behind / rate + duration / 2,
    )


def wait_mean_latency(
    arrival_rate: float, iteration_time: float, threshold: int, decode_length: int
) -> float:
    """Mean latency of WAIT with one type, seconds: W_q + l' n / lambda + DT.

    In the long run every iteration holds n prompts at each of the l' + 1 stages, so it takes the
    same time DT(n), and the prompts awaiting prefill are the queue M/D^[n,n]/1. The residents are
    l' n between iterations and n more during one, a share lambda DT / n of the time; Little's law
    does the rest.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        As `batch_service_queue`, with lambda DT >= n among them.
    """
    n = as_integer(threshold, "queue", "threshold", minimum=1)
    stages = as_integer(decode_length, "queue", "decode_length", minimum=1)
    queue = batch_service_queue(arrival_rate, iteration_time, n, n)
    return queue.mean_wait + stages * n / float(arrival_rate) + float(iteration_time)


def _roots(alpha: float, c: int) -> npt.NDArray[np.complex128]:
    """Roots of z^c = e^(alpha (z - 1)) inside the unit circle, shape (c - 1,)."""
    units = np.exp(2j * np.pi * np.arange(1, c) / c)
    z: npt.NDArray[np.complex128] = units * math.exp(-alpha / c)
    # A contraction with factor alpha / c: slow under heavy load, hence Newton's steps.
    for _ in range(20):
        z = units * np.exp(alpha * (z - 1) / c)
    for _ in range(60):
        image = units * np.exp(alpha * (z - 1) / c)
        z = z - (z - image) / (1 - alpha * image / c)
    return z
