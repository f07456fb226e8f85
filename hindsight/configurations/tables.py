"""State tables: valid inequalities over what runs together at one epoch, in exact integers.

*State.* A request i started at t_i is *active* at every epoch tau with t_i <= tau < C_i. Its state
there is (m, r) = (s_i + tau - t_i, C_i - tau): it has used m tokens so far and has r >= 1 rounds
to go, so m + r = s_i + o_i.

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

*Lifting.* With all other coefficients fixed, the coefficient w of one state may be raised as long
as c w + (the heaviest total of the others that fits beside c copies of the state) <= D for every
c >= 1 that fits: every configuration holds some number c of copies, so the table stays valid.
Raising one state after another, each against the coefficients as they are by then, keeps it valid
throughout, and only ever strengthens the inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import inner, largest, njit, overwrite, step
from instances import InvalidValueError
from instances.arrays import IntArray

DENOMINATOR = 60
"""Capacity of core and separated tables: divisible by 2, 3, 4, 5 and 6, so that the coefficients of
most facets are exact integers."""


@dataclass(frozen=True, eq=False)
class ConfigurationCut:
    """Inequality: the sum of ``coefficients[m, r]`` over active requests is <= ``capacity``.

    It is meant to hold at every epoch.

    Attributes
    ----------
    coefficients : int64 array
        rho, int64 >= 0, shape (M + 1, M + 1), indexed [m, r].
    capacity : int
        D >= 1, in the units of the coefficients.
    """

    coefficients: IntArray
    capacity: int


def state_copies(
    prompt_lengths: npt.ArrayLike, output_lengths: npt.ArrayLike, memory_limit: int
) -> IntArray:
    """Count the requests that can be in each state at once: ``copies[m, r]``.

    This is the number of requests that ever pass through (m, r), but at most M // (m + r), the
    number that fits together (module docstring).

    Parameters
    ----------
    prompt_lengths, output_lengths : array_like
        Tokens, shape (n,).
    memory_limit : int
        M, tokens.

    Returns
    -------
    int64 array, shape (M + 1, M + 1)
        Indexed [m, r]; ``copies[m, 0]`` is 0.

    Raises
    ------
    InvalidValueError
        Lengths are out of range, or a request with s + o > M can never run.
    """
    prompts = np.asarray(prompt_lengths, dtype=np.int64)
    outputs = np.asarray(output_lengths, dtype=np.int64)
    copies = np.zeros((memory_limit + 1, memory_limit + 1), dtype=np.int64)
    for i, (s, o) in enumerate(zip(prompts.tolist(), outputs.tolist(), strict=True)):
        if s < 0:
            raise InvalidValueError(f"request {i}", "prompt_length", s, "is below 0")
        if o < 1:
            raise InvalidValueError(f"request {i}", "output_length", o, "is below 1")
        if s + o > memory_limit:
            raise InvalidValueError(
                f"request {i}",
                "prompt_length + output_length",
                s + o,
                f"exceeds memory_limit {memory_limit}",
            )
        age = np.arange(o)
        copies[s + age, o - age] += 1
    m, r = np.indices(copies.shape)
    most: IntArray = np.minimum(copies, memory_limit // np.maximum(m + r, 1))
    return most


def ordered_states(copies: IntArray) -> IntArray:
    """Return the states that occur, in the order in which (C) is checked.

    Returns
    -------
    int64 array, shape (number of states, 3)
        Rows (m, r, copies), r decreasing, then m increasing.
    """
    m, r = np.nonzero(copies)
    order = np.lexsort((m, -r))
    columns = (m[order], r[order], copies[m[order], r[order]])
    return np.column_stack(columns).astype(np.int64)


@step
def most_members(states: IntArray, memory_limit: int) -> int:
    """Return an upper bound on the members of a configuration: M, or about M / 2 if all m >= 1."""
    for p in range(states.shape[0]):
        if states[p, 0] == 0:
            return memory_limit
    return memory_limit // 2 + 1


@inner
def append_state(
    value: IntArray, states: IntArray, p: int, weight: int, memory_limit: int, kmax: int
) -> None:
    """Allow up to ``copies`` members in state p, each of the given weight, in place.

    ``value[k, S]`` is the largest total weight of a prefix of k members whose m add up to S, or -1.
    Each copy takes one pass; k decreases, so that a pass adds at most one member.
    """
    m, r, copies = states[p, 0], states[p, 1], states[p, 2]
    for _ in range(copies):
        for k in range(min(kmax - 1, memory_limit // r - 1), -1, -1):
            for S in range(memory_limit - m - (k + 1) * r, -1, -1):
                if value[k, S] >= 0 and value[k, S] + weight > value[k + 1, S + m]:
                    value[k + 1, S + m] = value[k, S] + weight


@partial(njit, makes_arrays=True)
def heaviest(states: IntArray, weights: IntArray, memory_limit: int) -> int:
    """Return the largest total weight of any configuration; those below 1 count as 0."""
    kmax = most_members(states, memory_limit)
    value = np.full((kmax + 1, memory_limit + 1), -1, dtype=np.int64)
    value[0, 0] = 0
    for p in range(states.shape[0]):
        if weights[p] > 0:
            append_state(value, states, p, weights[p], memory_limit, kmax)
    most: int = largest(value.ravel())
    return most


@step
def _raised(
    state: IntArray, value: IntArray, behind: IntArray, capacity: int, memory_limit: int
) -> int:
    """Find the largest weight that a state may have with all others fixed.

    ``value[k, S]`` is the best prefix of the states before it, or -1; ``behind[k, S]`` is the best
    total of those after it behind a prefix (k, S).
    """
    m, r, copies = state[0], state[1], state[2]
    result = capacity
    for c in range(1, copies + 1):
        best = -1
        for k in range(value.shape[0] - c):
            for S in range(memory_limit - (k + c) * r - c * m + 1):
                if value[k, S] >= 0:
                    best = max(best, value[k, S] + behind[k + c, S + c * m])
        if best >= 0:
            result = min(result, (capacity - best) // c)
    return result


@step
def _prepend_state(state: IntArray, weight: int, behind: IntArray, memory_limit: int) -> None:
    """Allow up to ``copies`` members in a state before those counted in ``behind``, in place.

    k increases: the rows with more members, which are read, do not contain the state yet.
    """
    m, r, copies = state[0], state[1], state[2]
    if weight <= 0:
        return
    for k in range(min(behind.shape[0] - 1, memory_limit // r)):
        for S in range(memory_limit - m - (k + 1) * r + 1):
            best = behind[k, S]
            for c in range(1, min(copies, behind.shape[0] - 1 - k) + 1):
                if S + c * m + (k + c) * r > memory_limit:
                    break
                best = max(best, c * weight + behind[k + c, S + c * m])
            behind[k, S] = best


@partial(njit, makes_arrays=True)
def _lift_sweep(states: IntArray, weights: IntArray, capacity: int, memory_limit: int) -> None:
    """Raise every state once in order of decreasing r, in place.

    ``ahead[p, k, S]``: best total of states p, p + 1, ... behind a prefix (k, S), with the weights
    before the sweep; ``value[k, S]``: best prefix of states before p, with those already raised.
    Together they hold all weights as they are when p is raised.
    """
    n = states.shape[0]
    kmax = most_members(states, memory_limit)
    ahead = np.zeros((n + 1, kmax + 1, memory_limit + 1), dtype=np.int64)
    for p in range(n - 1, -1, -1):
        for k in range(kmax + 1):
            overwrite(ahead[p, k], ahead[p + 1, k])
        _prepend_state(states[p], weights[p], ahead[p], memory_limit)
    value = np.full((kmax + 1, memory_limit + 1), -1, dtype=np.int64)
    value[0, 0] = 0
    for p in range(n):
        raised = _raised(states[p], value, ahead[p + 1], capacity, memory_limit)
        weights[p] = max(weights[p], raised)
        if weights[p] > 0:
            append_state(value, states, p, weights[p], memory_limit, kmax)


def lift(coefficients: IntArray, capacity: int, copies: IntArray, memory_limit: int) -> IntArray:
    """Raise a valid table in one sweep over its states, in order of decreasing r.

    The table stays valid throughout (module docstring).

    Parameters
    ----------
    coefficients, copies : int64 array, shape (M + 1, M + 1)
    capacity : int
        Capacity of the table.
    memory_limit : int
        M, tokens.

    Returns
    -------
    int64 array, shape (M + 1, M + 1)
        Raised coefficients; 0 for states that do not occur.
    """
    states = ordered_states(copies)
    weights = np.ascontiguousarray(coefficients[states[:, 0], states[:, 1]], dtype=np.int64)
    _lift_sweep(states, weights, capacity, memory_limit)
    lifted = np.zeros_like(coefficients, dtype=np.int64)
    lifted[states[:, 0], states[:, 1]] = weights
    return lifted


def memory_table(memory_limit: int) -> ConfigurationCut:
    """Return the memory constraint of round tau + 1: rho = m + 1, D = M (module docstring)."""
    m, r = np.indices((memory_limit + 1, memory_limit + 1))
    inside = (r >= 1) & (m + r <= memory_limit)
    return ConfigurationCut(np.where(inside, m + 1, 0).astype(np.int64), memory_limit)


def core_table(sigma: int, memory_limit: int) -> ConfigurationCut:
    """Return the pairwise core table of sigma >= 1: two requests are never both in their cores.

    rho = D [m >= sigma and 2 r >= 1 + M - m - sigma]; the proof is in the module docstring.

    Raises
    ------
    InvalidValueError
        ``sigma`` is below 1.
    """
    if sigma < 1:
        raise InvalidValueError("core table", "sigma", sigma, "is below 1")
    m, r = np.indices((memory_limit + 1, memory_limit + 1))
    inside = (r >= 1) & (m + r <= memory_limit)
    core = inside & (m >= sigma) & (2 * r >= 1 + memory_limit - m - sigma)
    return ConfigurationCut(np.where(core, DENOMINATOR, 0).astype(np.int64), DENOMINATOR)
