r"""Lower bounds on latencies in seconds without a solver, from requests alone and one machine.

**Assumptions.** Round q lasts D_q >= d0 + d1 (tokens processed) + d2 (KV tokens of
the batch). At its start, each request that has arrived is absent, or only held, or processes a
chunk of its prompt (and holds that, or all of it), or advances: step k emits its k-th token and
ends with s + k tokens held. Whatever is in the cache is at most M. Requests may be evicted (all
lost) or preempted (tokens kept, prompt and tokens processed again later) at the start of any round,
and the machine may idle.

Let the last attempt of each step count. Then request i advances in o rounds r_1 < ... < r_o that
begin at a_i or later; it processes a token or more in each and holds s + k in r_k; and in the
rounds before r_1 in which chunks of its prompt are processed, together with r_1, it processes s
tokens of it in all: a request that finds tokens of an earlier attempt still stored, and does not
process them again, has processed each of them before. Nothing else is used: tokens processed again
after a preemption only add work. With a minorant (`hindsight.prices.minorants`), shorten every
round to the length the minorant gives and idle for the rest: no request completes later, so rounds
may be taken to last just that.

**Other memory rules.** All bounds are those of `relaxed` workloads: prompts of s - u tokens where
the newest u tokens are not stored yet, and as much memory M as whole blocks have. Step k stores
s - u + k tokens: the batch time is given this number, and the blocks hold at least as many. A
prompt of s tokens has at least s - u to process. The bounds do not use the tokens that a request
holds while its prompt is processed in chunks before r_1, so they may be all or part of it.

**Own time.** C_i - a_i is at least the sum of the lengths of i's own rounds. There are o or more of
them, they process s + o - 1 tokens or more, and r_k holds s + k:

    C_i - a_i >= o d0 + d1 (s + o - 1) + d2 sum_k (s + k).

**One machine.** Charge i in r_k the machine seconds d1 tok + e (s + k), tok = 1 for k > 1, where e
= d2 + d0 / M, and d1 c for a chunk of c prompt tokens, s of them in all. The charges of a round are
at most d1 (tokens processed) + d2 (tokens of the batch) + d0 (tokens of the batch) / M <= D_q, as
the batch is at most M. Spread each evenly over its round: a preemptive schedule of one machine in
which i takes p_i = d1 (s + o - 1) + e sum_k (s + k) seconds, none before a_i, and is done by C_i.
So the total is at least that of shortest remaining processing time first, which is least (Schrage,
1968).

**Least length and attention.** If rounds last least + d2 (KV tokens of the batch) or more too, so
do i's own rounds. If prompt tokens y to y + q take d1 q + c ((y + q)^2 - y^2), this number replaces
d1 q: sums over chunks are those of the whole prompt.

**Mean busy times.** Let B_i be the mean time of i's charges. The sum of the B_i on one machine is
least when the job of smallest p_i is served at any time, preempting (Goemans, 1997: exchange two
pieces; serving j for i over a moment changes the sum by 1/p_j against 1/p_i). And C_i - B_i is at
least m_i, its value if i's rounds have their shortest lengths and follow one another without a
pause: without chunks, C_i minus the middle of r_k is at least half of r_k's shortest length plus
the shortest lengths of all later steps.

*Lemma (chunks).* A chunked prompt has no smaller sum of charge x (end of r_1 - middle of the round)
than a whole one. *Proof.* Merge the last two chunks, c1 and c2, of lengths L1 >= d0 + d1 c1
and L2 >= d0 + d1 c2 + d2 (s + 1), into a round of length L = d0 + d1 (c1 + c2) + d2 (s + 1).
Earlier chunks come closer to the end, as L1 + L2 >= L. The charges of the two give, doubled,

    2 d1 c1 (L2 + L1 / 2) + (d1 c2 + e (s + 1)) L2   before,  (d1 (c1 + c2) + e (s + 1)) L   after,

where the sum before is least at the least L1 and L2. At these, L2 - L = -d1 c1 and L1 + L2 - L =
d0, so that
before - after = d1 c1 (L2 + d0 - d1 c2 - e (s + 1)) = d1 c1 (2 d0 - d0 (s + 1) / M), which is not
negative as s + 1 <= M. With a least length, L1 and L2 are as large or larger. If it is L, it is L1
and L2 too, and before - after = d1 c1 (L1 + L2). Repeat until one chunk is left. []

So the total is at least sum_i (m_i - a_i) plus the least sum of the B_i.

**Several replicas.** With K machines, M is the memory of one, and each request has its rounds on
one of them at a time. Own times, the moments m_i and the Lemma are about i's own rounds, which are
disjoint, so they stay. In "one machine" and "mean busy times" the charges of a replica's rounds are
at most 1 per second as before, so those of all replicas are at most K: a preemptive schedule
of one machine of speed K, on which i takes p_i / K seconds if it is alone. Both least sums are
those of that machine. None of this needs a request to stay where it is: the bounds hold where
requests may migrate for free. One machine with memory K M is not a relaxation: its rounds are
longer, as d1 and d2 count what all of them do.

**First tokens.** The same with r_1 alone, of whichever attempt emits the first token: own prefill
d0 + d1 s + d2 (s + 1), machine seconds d1 s + e (s + 1), and half of the own prefill for m_i.

Everything is computed in fractions, over one denominator; the excess of each mean busy time is
rounded down to a multiple of 2^-60 seconds. Arrival times count as the decimals they are written
as.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from instances import Workload
from instances.problem.memory_translation import relaxed
from instances.validation import decimal

from .minorants import AffineMinorant, affine_minorants

MEAN_UNIT = 2**60
"""The bound "mean busy times" rounds each request's term down to a multiple of 1 / MEAN_UNIT s."""


class _Job(NamedTuple):
    """A request as a job on one preemptive machine that is as fast as all K replicas together.

    All numbers are integers in a short unit of time; `_jobs` returns how many units a second has.

    Attributes
    ----------
    release : int
        Arrival time a_i of the request.
    own : int
        Least time from the start of the request's first round to its completion, if it runs alone.
    seconds : int
        Processing time p_i / K on this machine. Here p_i is the least machine time of the request.
        Each round that it takes part in charges it a share of the round's length, and p_i is the
        least sum of these charges.
    moment : int
        2 * ``seconds`` * (least time from the mean time of the request's processing to its
        completion), in squares of the unit of time.
    """

    release: int
    own: int
    seconds: int
    moment: int


def _jobs(workload: Workload, minorant: AffineMinorant) -> tuple[list[_Job], int]:
    """Return one job per request, and the number of units of time per second.

    The times of the jobs are in this unit, which is so short that all are integers.
    """
    workload = relaxed(workload)
    # In units of 1 / ``unit`` seconds, all arrival times and all processing times p_i are integers.
    # The function returns times in units of 1 / (K ``unit``) seconds, so that the times p_i / K on
    # a machine as fast as K replicas are integers too.
    K = workload.replicas
    releases = [decimal(one) for one in workload.arrival_times.tolist()]
    overhead = minorant.d2 + minorant.d0 / workload.memory_limit
    exact = [*minorant, overhead]
    unit = math.lcm(*(one.denominator for one in (*exact, *releases)))
    d0, d1, d2, least, square, e = (int(one * unit) for one in exact)
    jobs = []
    lengths = workload.prompt_lengths.tolist(), workload.output_lengths.tolist()
    for release, s, o in zip(releases, *lengths, strict=True):
        own = seconds = moment = 0
        for k in range(o, 0, -1):
            processed = d1 * s + square * s**2 if k == 1 else d1
            length = max(d0 + processed, least) + d2 * (s + k)
            charge = processed + e * (s + k)
            moment += charge * (2 * own + length)
            own, seconds = own + length, seconds + charge
        jobs.append(_Job(int(release * unit) * K, own * K, seconds, moment * K))
    return jobs, unit * K


def _serve(jobs: Sequence[_Job], *, remaining: bool) -> Iterator[tuple[int, int, int]]:
    """Simulate one preemptive machine that always serves the released job of least processing time.

    If ``remaining`` is True, the machine compares remaining processing times, otherwise original
    ones. Yields one triple for each uninterrupted piece of service, in the order of time: (index of
    the job in ``jobs``, start, length). Start and length are in the unit of time of the jobs.
    """
    left = [job.seconds for job in jobs]
    waiting: list[tuple[int, int]] = []
    order = sorted(range(len(jobs)), key=lambda i: jobs[i].release)
    now = position = 0
    while waiting or position < len(order):
        if not waiting:
            now = max(now, jobs[order[position]].release)
        while position < len(order) and jobs[order[position]].release <= now:
            i = order[position]
            heapq.heappush(waiting, (left[i], i))
            position += 1
        i = waiting[0][1]
        length = left[i]
        if position < len(order):
            length = min(length, jobs[order[position]].release - now)
        left[i] -= length
        yield i, now, length
        now += length
        if not left[i]:
            heapq.heappop(waiting)
        elif remaining:
            # The job just served, i, had the least remaining time of all waiting jobs, and now has
            # even less. So job i stays on top of the heap ``waiting``. Replace only its entry.
            waiting[0] = (left[i], i)


def _own_time(jobs: Sequence[_Job], unit: int) -> Fraction:
    return Fraction(sum(job.own for job in jobs), unit)


def _one_machine(jobs: Sequence[_Job], unit: int) -> Fraction:
    # A job completes at the end of its last piece of service. Pieces come in the order of time, so
    # in this dictionary the last piece of a job replaces the earlier ones.
    completed = {job: start + length for job, start, length in _serve(jobs, remaining=True)}
    return Fraction(sum(completed.values()) - sum(job.release for job in jobs), unit)


def _mean_busy_times(jobs: Sequence[_Job], unit: int) -> Fraction:
    twice = [job.moment - 2 * job.release * job.seconds for job in jobs]
    for job, start, length in _serve(jobs, remaining=False):
        twice[job] += length * (2 * start + length)
    pairs = zip(jobs, twice, strict=True)
    total = sum(moment * MEAN_UNIT // (2 * job.seconds * unit) for job, moment in pairs)
    return Fraction(total, MEAN_UNIT)


_BOUNDS = {"own time": _own_time, "one machine": _one_machine, "mean busy times": _mean_busy_times}


def mean_busy_prices(
    workload: Workload, minorant: AffineMinorant
) -> tuple[list[float], list[float]]:
    """Return times in seconds, and the price of one second of the machine at each of these times.

    Between two times the price is linear. It jumps at a time that occurs twice.

    They are dual prices of the bound "mean busy times" (`machine_bounds`): the sum over all
    requests of the least mean time of processing plus payments, less what the prices are worth in
    all, is that bound's sum of mean times. The bound's schedule always serves, of the requests that
    have arrived, the one of least processing time p. The price at time t is the integral of 1 /
    P(u) over u from t to the next idle time, where P(u) is the largest p of a request served from t
    to u. If the machine stopped for a moment at t, the request served then would be served later
    instead, in place of one with the same or a larger p, which would be served later too, and so on
    until an idle time. Requests with a smaller p would not be delayed. With K replicas the price is
    that of a second of one replica. Floats suffice, because these prices are only the first ones of
    an ascent.
    """
    jobs, unit = _jobs(workload, minorant)
    times: list[float] = []
    prices: list[float] = []
    price, resumed = 0.0, -1
    # Pieces (P, duration) of the integral at the present time, from the latest to the earliest.
    pieces: list[tuple[float, float]] = []
    for job, start, length in reversed(list(_serve(jobs, remaining=False))):
        if start + length != resumed:
            price, pieces = 0.0, []
        largest, duration = float(workload.replicas * jobs[job].seconds), float(length)
        while pieces and pieces[-1][0] <= largest:
            smaller, lasts = pieces.pop()
            price -= lasts / smaller
            duration += lasts
        pieces.append((largest, duration))
        price += duration / largest
        resumed = start
        times += (start + length) / unit, start / unit
        prices += price - length / largest, price
    return times[::-1], prices[::-1]


def machine_bounds(workload: Workload, batch_time: object) -> dict[str, Fraction]:
    """Return three lower bounds, by name, on the total latency in seconds of every scheduler.

    "own time" is the sum over the requests of the least time that each takes if it runs alone. "one
    machine" is the least total latency on one preemptive machine, as given by shortest remaining
    processing time first. "mean busy times" is the sum of two bounds: on the mean time at which
    each request is processed on such a machine, and on the time from this mean to its completion.
    The head of this module has the proofs. The bounds use affine minorants of the batch time, which
    are lower bounds on the length of a round. If there are several minorants, each bound is the
    largest over them. The bounds are exact fractions or rounded down. They hold only if the
    minorants are proved (`hindsight.prices.minorants.is_known`).

    Parameters
    ----------
    workload : Workload
        Requests at their arrival times.
    batch_time : BatchTime
        A batch time that `affine_minorants` supports.

    Raises
    ------
    InvalidTypeError
        The batch time has no known affine minorant.
    """
    best: dict[str, Fraction] = {}
    for minorant in affine_minorants(batch_time, workload.memory_limit):
        jobs, unit = _jobs(workload, minorant)
        for name, compute in _BOUNDS.items():
            best[name] = max(best.get(name, Fraction(0)), compute(jobs, unit))
    return best
