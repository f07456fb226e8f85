"""State tables: valid inequalities on the requests active at one epoch, in exact integers.

*State.* A request i started at t_i is *active* at every epoch tau with t_i <= tau < C_i. Its state
there is (m, r) = (s_i + tau - t_i, C_i - tau): it holds m tokens and has r >= 1 rounds to
go, so m + r = s_i + o_i.

*Configuration.* A multiset A of states can be active together only if for every (m, r) in A

    sum over (m', r') in A with r' >= r of (m' + r)  <=  M,                                    (C)

because in round tau + r every such member still runs and holds m' + r.

*Reading a configuration in order.* List the members in order of decreasing r. A prefix of k members
whose m add up to S accepts a further member (m, r) iff S + m + (k + 1) r <= M. This is (C) for the
new member, as all members before it have r' >= r. Among members tied in r, (C) is one and the same
sum for all of them, and it is checked when the last of them is appended (the sums checked before
are smaller). Members appended later have smaller r and do not enter (C) of an earlier one. So a
list of states is a configuration iff each of its members is accepted, and (k, S) is all that a
dynamic program over the states in order of decreasing r must remember. At most M members fit
together, and at most M / 2 when every m >= 1, since (C) with the smallest r >= 1 says
S + k <= M and S >= k.

*Table.* Non-negative integers rho(m, r) and a capacity D with sum of rho over A <= D for every
configuration A in which state (m, r) occurs at most ``copies[m, r]`` times, where ``copies[m, r]``
counts the requests of the instance that can be in that state at all: those with
s_i + o_i = m + r and s_i <= m. Then in every feasible schedule and at every epoch tau

    sum over active i of rho(s_i + tau - t_i, C_i - tau)  <=  D.

Proof: each request is in at most one state at tau, so the active states form a multiset that uses
each state at most ``copies`` times; by (C) it is a configuration. More than M / (m + r) requests in
one state are no configuration ((C) for that state: k (m + r) <= M), so ``copies`` may be cut off
there.

*Memory table.* rho(m, r) = m + 1, D = M. Proof: (C) for a member of least r >= 1 says
sum (m' + r) <= M, and sum (m' + 1) is no more. It is the memory constraint, [J25] Equation (3), for
round tau + 1.

*Core tables.* For an integer sigma >= 1: rho(m, r) = [m >= sigma and 2 r >= 1 + M - m - sigma],
D = 1: no two requests are ever in their cores together. Proof: let (m, r) and (m', r') with
r' >= r be in one configuration, both in the core. By (C) for (m, r), m + m' + 2 r <= M. But
m' >= sigma and 2 r >= 1 + M - m - sigma give m + m' + 2 r >= M + 1. (Two copies of one state are
the case (m', r') = (m, r).) In terms of epochs, request i is in its core exactly for

    t_i + max(0, sigma - s_i) <= tau <= C_i - 1 - max(0, M - s_i - o_i - sigma).

The memory constraint looks at one round only; cores see two requests that conflict in a *later*
round than the one looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray

MOST_CORES = 12
"""Largest number of tables of `core_table` in `first_tables`. More tables take longer and prove
less: on one instance, 50 proved 41,633 rounds in 15.5 s, and 12 proved 42,107 rounds in 10.3 s."""


def state_copies(
    prompt_lengths: npt.ArrayLike, output_lengths: npt.ArrayLike, memory_limit: int
) -> IntArray:
    """Count the requests that can be in each state at the same time: ``copies[m, r]``.

    In state (m, r) a request holds m tokens and has r rounds to go, so it will hold m + r tokens
    in its last round. ``copies[m, r]`` is the smaller of two numbers. The first is the number of
    requests that are in this state at some time while they run. The second is M // (m + r): more
    requests in this state do not fit into memory in their last round.

    Parameters
    ----------
    prompt_lengths, output_lengths : array_like
        Prompt and output length of each request, in tokens, shape (n,).
    memory_limit : int
        Memory limit M, in tokens.

    Returns
    -------
    int64 array, shape (M + 1, M + 1)
        Indexed [m, r]; ``copies[m, 0]`` is 0.
    """
    prompts = np.asarray(prompt_lengths, dtype=np.int64)
    outputs = np.asarray(output_lengths, dtype=np.int64)
    copies = np.zeros((memory_limit + 1, memory_limit + 1), dtype=np.int64)
    for s, o in zip(prompts.tolist(), outputs.tolist(), strict=True):
        age = np.arange(o)
        copies[s + age, o - age] += 1
    m, r = np.indices(copies.shape)
    most: IntArray = np.minimum(copies, memory_limit // np.maximum(m + r, 1))
    return most


class States(NamedTuple):
    """States (m, r) that requests can be in, sorted by decreasing r, then by increasing m.

    In state (m, r) a request holds m tokens and has r rounds to go.

    Attributes
    ----------
    held, rounds, copies : int64 array, shape (states,)
        m and r of each state, and the number of requests that may be in it at the same time.
    memory_limit : int
        Memory limit M, in tokens.
    """

    held: IntArray
    rounds: IntArray
    copies: IntArray
    memory_limit: int


def ordered_states(copies: IntArray) -> States:
    """Return the states (m, r) that some request can be in: those with ``copies[m, r]`` >= 1.

    In state (m, r) a request holds m tokens and has r rounds to go. ``copies[m, r]``, computed
    by `state_copies`, is the number of requests that can be in it at the same time. The states are
    sorted by decreasing r, then by increasing m.
    """
    m, r = np.nonzero(copies)
    order = np.lexsort((m, -r))
    return States(m[order], r[order], copies[m, r][order], len(copies) - 1)


def memory_table(states: States) -> IntArray:
    """Return the memory table: the number m + 1 for each state (m, r), with capacity M.

    In state (m, r) a request holds m tokens and has r rounds to go. A state table has a number
    for each state. In every schedule, at every epoch (time between two rounds), the numbers of the
    states of all running requests sum to at most its capacity. For the memory table, this is the
    memory limit M in the next round, in which a request in state (m, r) holds m + 1 tokens.
    """
    return states.held + 1


def core_table(states: States, sigma: int) -> IntArray:
    """Return the core table of ``sigma`` >= 1: the number 1 for states in its core, else 0.

    In state (m, r) a request holds m tokens and has r rounds to go. The core of sigma is the set
    of states with m >= sigma and 2 r >= 1 + M - m - sigma, where M is the memory limit. Two running
    requests are never both in the core, so the capacity of the table is 1. Proof: let two requests
    in states (m, r) and (m', r'), with r' >= r, both be in the core. In the r-th round from now
    both run, and hold m + r and m' + r tokens. Because of m' >= sigma, these are m + m' + 2 r >=
    m + sigma + (1 + M - m - sigma) = M + 1 tokens together, which do not fit into memory.
    """
    m, r, _, limit = states
    core = (m >= sigma) & (2 * r >= 1 + limit - m - sigma)
    return core.astype(np.int64)


def first_tables(states: States, prompt_lengths: IntArray) -> FloatArray:
    """Return the memory table and some core tables, each divided by its capacity.

    A table has a number for each state of a request. At any time, its numbers for the states of all
    running requests sum to at most its capacity. In the memory table (`memory_table`), it is the
    memory limit. In a core table (`core_table`), at most one running request has the number 1.
    There are core tables for up to `MOST_CORES` values of the parameter ``sigma``: 1 and some of
    the prompt lengths.

    Returns
    -------
    float64 array, shape (tables, states)
        One row per table, one column per state.
    """
    lengths = sorted({*prompt_lengths.tolist(), 1} - {0})
    places = np.linspace(0, len(lengths) - 1, min(len(lengths), MOST_CORES))
    sigmas = [lengths[round(place)] for place in places.tolist()]
    cores = [core_table(states, sigma) for sigma in sigmas]
    return np.array([memory_table(states) / states.memory_limit, *cores])
