"""Pruning rules of the forward search: twins, fixing, dominance and improvable states.

States, bounds, costs and symbols are those of `hindsight.exact.state_kernels`.

**Twins.** Requests of the same lengths start in order of arrival, and in index order where they
arrive together. Let i come before j in this order, so a_i <= a_j, and t_j < t_i. Exchanging the two
starts is feasible, as t_j >= a_j >= a_i and t_i > t_j >= a_j, and changes neither the memory nor
the cost. A class of twins is sorted after finitely many such exchanges. The search makes each
request wait for one twin: of those before it in this order that have a smaller index, the last. If
requests are numbered by arrival, this keeps the whole class in order. (Starting the shorter of two
requests first would not be valid: the longer one need not fit where the shorter one was.)

**Fixing.** Request i is not started at tau if the bound before the starts at tau, plus the regrets
of all requests that start at tau including i, exceeds the budget. This is valid because the slack
of tau and the requests left unstarted add >= 0 to the bound.

Bound and fixing prune all that *start windows* and *precedences* derived from prices would prune.
Let B be the bound of the empty schedule, x_i(t) = P_i(t) - u_i(0) >= 0 for t >= a_i, and c the
budget - B. Then SCALE * TEL >= B + sum_i x_i(t_i), so in every schedule within the budget x_i(t_i)
<= c, which fixes the earliest and the latest start of i, and x_i(t_i) + x_j(t_j) <= c, which proves
that i starts no later than j if all t_j < t_i have a larger sum. The bound at tau is B + sum over
started of x_i(t_i) + sum over unstarted of min over t >= tau of x_i(t) + past slacks, all of them
>= 0. So a start with x_i(tau) > c is not made (with it the bound is >= B + x_i(tau)); a state at
tau with i unstarted past its latest start is pruned by its bound; and so is one with j started and
i, which may start no later, unstarted: its bound is >= B + x_j(t_j) + x_i(t) for some t >= tau >
t_j.

**Dominance.** Of two states at tau with the same started set, let c cost no more than b and hold no
more memory than b in any later round. Every completion of b is one of c: the requests left are the
same, and in every round after tau the memory of c plus theirs is at most that of b plus theirs. So
b may go.

**Improvable.** A state at tau is improvable when one of three rules applies to its partial
schedule; then *every* schedule that extends it has a strictly (lexicographically) cheaper variant.
Write e = s + o. All starts after the state are >= tau, so they hold nothing in rounds <= tau, and
those rounds are as the partial schedule leaves them.

1. *A request i that ends at tau would have fitted d >= 1 rounds earlier*: t_i - d >= a_i, and
   rounds t_i - d + 1 .. t_i - d + o_i <= tau hold at most M after the move. In the other rounds <=
   tau memory only falls, and after tau nothing changes, as i has ended either way. TEL falls by d.
2. *An unstarted request i would have fitted at t = tau - o_i >= a_i*: rounds t + 1 .. tau hold at
   most M with i added. In any extension t_i >= tau. Moving i to t changes no round after tau but by
   taking i away. TEL falls by t_i - t >= o_i >= 1.
3. *The same after taking out a started request j* with s_j <= s_i, o_j <= o_i and t_j >= t = tau -
   o_i: rounds t + 1 .. tau hold at most M with i at t and without j. In an extension with t_i >=
   tau let i start at t and j at t_i. This is feasible: t >= a_i by the rule, and t_i >= tau > t_j
   >= a_j; rounds <= tau hold what was tested (in rounds <= t, j held nothing, since t_j >= t, and i
   still holds nothing); in rounds > tau, i is gone, j no longer holds what it may have held there,
   and in round t_i + k it holds s_j + k <= s_i + k for k <= o_j <= o_i, where i held s_i + k. TEL
   changes by (t - t_i) + (t_i - t_j) = t - t_j <= 0. If t_j > t, it falls. If t_j = t, TEL stays
   the same and w changes by e_i (t - t_i) + e_j (t_i - t) = (e_i - e_j)(t - t_i) < 0 when e_i >
   e_j; e_i >= e_j always, and the rule does not apply when e_i = e_j and t_j = t.

So no prefix of a lexicographically minimal schedule is improvable.

**Why all rules of the search are sound together.** Merge and dominance replace one prefix by
another, and what was not improvable before might be so after, or the replacement might be pruned in
turn. The argument that covers all of them is minimality in the lexicographic order of costs (TEL,
sum of (s + o) t), in which both merge and dominance compare states.

Call a schedule *minimal* if no feasible schedule is cheaper in that order; then its TEL is the
optimum. Minimal schedules exist, since costs are pairs of non-negative integers. Assume that the
budget is at least the optimum.

*Claim.* At every epoch tau, until a schedule whose total latency is the optimum has been found,
some kept state is the prefix of a minimal schedule whose twins start in order.

At tau = 0 the empty state is one (sort the starts of twins). Let it hold at tau, with kept state x
and minimal schedule S, and let y be the prefix of S at tau + 1: a child of x, which `expand`
enumerates unless it is pruned.

1. y is not pruned by its bound, nor is the branch towards it: bounds are at most SCALE * optimum <=
   SCALE * budget. (The budget is lowered only to one less than the total latency of a schedule
   found, so it stays >= optimum until an optimum is found.)
2. y is not improvable: S extends it, and a strictly cheaper variant of S would be feasible.
3. y obeys the twin rule, as S does.
4. If y is merged away or dominated, there is a state z at tau + 1 with the same started set, a cost
   no larger, and memory nowhere larger in later rounds; z was kept by the same tests as y. Complete
   z as S completes y: this schedule S' is feasible, and its cost, prefix plus rest, is at most that
   of S. As S is minimal, so is S'. Its twins start in order: a request and the twin it waits for
   are both in z, which obeys the rule, or both in the rest, as in S, or the twin is in z and so
   starts earlier. z contains no request without the twin it waits for. So z takes the place of y
   *with a minimal schedule of its own*, and 2. applies to S' in the next step. If z is itself
   merged away or dominated, repeat; the order in which states remove each other has no cycles (each
   removal refers to a state that is kept at the time, and the last one stays).

So the claim holds at tau + 1. Hence if an unrestricted run ends with no state left and without a
schedule of TEL <= budget, every schedule has TEL >= budget + 1; if it ends with one, the cheapest
found is optimal. (A mere induction on TEL would not do: rule 3 of *improvable* prunes prefixes of
optimal schedules that are not minimal, and dominance between states of equal TEL without the second
component could then keep a prefix that rule 3 removes later.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import IntArray, RequestColumns


class _Partial(NamedTuple):
    """Partial schedule of a state of the forward search: the requests started before its epoch.

    An epoch is the time between two rounds.

    Attributes
    ----------
    starts : int64 array, shape (n,)
        Start of each request, -1 if it has not started.
    memory : int64 array
        Tokens that these requests hold in each round from round ``first`` on.
    first : int
        Round of the first entry of ``memory``.
    """

    starts: IntArray
    memory: IntArray
    first: int


@step
def _fits_at(i: int, t: int, j: int, state: _Partial, requests: RequestColumns) -> bool:
    """Return whether request i, started at t, fits in memory in all its rounds without request j.

    The other requests in memory are those started in the partial schedule ``state``, except j. If j
    is i, the question is whether i fits after a move of its start to t. If j is -1, no request is
    removed.
    """
    s, o, _, M = requests
    last = t + o[i]
    begin, end, prompt = last, last, 0
    if j >= 0:
        begin, end, prompt = state.starts[j], state.starts[j] + o[j], s[j]
    r = last
    while r > t:
        own = prompt + r - begin if begin < r <= end else 0
        if state.memory[r - state.first] - own + s[i] + r - t > M:
            break
        r -= 1
    return bool(r == t)


@step
def _could_be_exchanged(i: int, t: int, state: _Partial, requests: RequestColumns) -> bool:
    """Return whether unstarted request i would have fitted at t in place of a started request.

    The state is a partial schedule. The started request, j, has no larger prompt and output than i,
    and started at t or later. Every schedule that extends the state then has a cheaper variant, in
    which i starts at t, and j starts where i started. This is rule 3 of *improvable* states in the
    proof at the head of this module.
    """
    s, o, _, _ = requests
    for j in range(len(s)):
        tj = state.starts[j]
        if tj < t or s[j] > s[i] or o[j] > o[i] or (tj == t and s[j] + o[j] == s[i] + o[i]):
            continue
        if _fits_at(i, t, j, state, requests):
            return True
    return False


@inner
def improvable(
    epoch: int, past: int, starts: IntArray, memory: IntArray, requests: RequestColumns
) -> bool:
    """Return whether every schedule that extends a state at ``epoch`` has a cheaper variant.

    An epoch is the time between two rounds. A state is a partial schedule: the requests started
    before ``epoch``, with their ``starts``. A schedule is cheaper if its total latency is smaller,
    or equal with a smaller sum of (s + o) t over requests of prompt s, output o and start t. There
    is a cheaper variant in three cases, rules 1 to 3 of the proof at the head of this module. A
    request that ends at ``epoch`` would have fitted earlier (1). A request that has not started
    could have run and ended at ``epoch``, together with the started ones (2) or in place of one of
    them (3).

    ``memory[k]`` is the number of tokens held in round epoch - past + k, for 0 < k <= past, with
    ``past`` greater than every output length. Rule 1 moves request i by at most past - 1 - o_i
    rounds, for which these entries suffice. With a smaller ``past``, this function would find fewer
    improvable states, but no wrong ones.
    """
    _, o, a, _ = requests
    state = _Partial(starts, memory, epoch - past)
    for i in range(len(o)):
        t = epoch - o[i]
        if starts[i] == t:
            farthest = min(t - a[i], past - 1 - o[i])
            for d in range(1, farthest + 1):
                if _fits_at(i, t - d, i, state, requests):
                    return True
        elif starts[i] < 0 and t >= a[i]:
            if _fits_at(i, t, -1, state, requests):
                return True
            if _could_be_exchanged(i, t, state, requests):
                return True
    return False


@njit
def dominated(
    rows: npt.NDArray[np.int16], begin: IntArray, end: IntArray, gone: npt.NDArray[np.bool_]
) -> None:
    """Set ``gone`` for each state that is dominated by an earlier state that is not gone itself.

    States are partial schedules in order of cost, so earlier ones cost no more. An earlier state
    dominates another one if no number in its row of ``rows`` is larger.

    Parameters
    ----------
    rows : int16 array, shape (states, columns)
        Row of numbers for each state, of which smaller ones are better: the tokens held in each
        round, or -1 times the tokens that each request has produced.
    begin, end : int64 array, shape (states,)
        Range of earlier states with which each state is compared: begin .. end - 1. With a smaller
        range, fewer dominated states are found.
    gone : bool array, shape (states,)
        Whether each state is dominated. All are False at first.
    """
    for y in range(len(rows)):
        for x in range(begin[y], end[y]):
            if gone[x]:
                continue
            k = 0
            while k < rows.shape[1] and rows[x, k] <= rows[y, k]:
                k += 1
            if k == rows.shape[1]:
                gone[y] = True
                break
