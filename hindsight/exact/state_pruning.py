"""Pruning rules of the forward search: dominance, and states with a strictly cheaper variant.

States, costs and symbols are those of `hindsight.exact.state_kernels`.

**Dominance.** Of two states at tau with the same started set, let c cost no more than b and hold no
more memory than b in any later round. Every completion of b is one of c: the requests left are the
same, and in every round after tau the memory of c plus theirs is at most that of b plus theirs. So
b may go.

**Improvable.** A state at tau is improvable when one of three rules applies to its partial
schedule; then *every* schedule that extends it has a strictly (lexicographically) cheaper variant.
Write e = s + o. All starts after the state are >= tau, so they hold nothing in rounds <= tau, and
those rounds are as the partial schedule leaves them.

1. *A request i that ends at tau would have fitted d >= 1 rounds earlier*: t_i - d >= a_i, and
   rounds t_i - d + 1 .. t_i - d + o_i <= tau hold at most M after the move. In the other rounds
   <= tau memory only falls, and after tau nothing changes, as i has ended either way. TEL falls
   by d.
2. *An unstarted request i would have fitted at t = tau - o_i >= a_i*: rounds t + 1 .. tau hold at
   most M with i added. In any extension t_i >= tau. Moving i to t changes no round after tau but
   by taking i away. TEL falls by t_i - t >= o_i >= 1.
3. *The same after taking out a started request j* with s_j <= s_i, o_j <= o_i and t_j >= t =
   tau - o_i: rounds t + 1 .. tau hold at most M with i at t and without j. In an extension with
   t_i >= tau let i start at t and j at t_i. This is feasible: t >= a_i by the rule, and
   t_i >= tau > t_j >= a_j; rounds <= tau hold what was tested (in rounds <= t, j held nothing,
   since t_j >= t, and i still holds nothing); in rounds > tau, i is gone, j no longer holds what
   it may have held there, and in round t_i + k it holds s_j + k <= s_i + k for k <= o_j <= o_i,
   where i held s_i + k. TEL changes by (t - t_i) + (t_i - t_j) = t - t_j <= 0. If t_j > t, it
   falls. If t_j = t, TEL stays the same and w changes by e_i (t - t_i) + e_j (t_i - t) =
   (e_i - e_j)(t - t_i) < 0 when e_i > e_j; e_i >= e_j always, and the rule does not apply when
   e_i = e_j and t_j = t.

So no prefix of a lexicographically minimal schedule is improvable.

**Why all rules of the search are sound together.** Merge and dominance replace one prefix by
another, and what was not improvable before might be so after, or the replacement might be pruned in
turn. The argument that covers all of them is minimality in the lexicographic order of costs (TEL,
sum of (s + o) t), in which both merge and dominance compare states.

Call a schedule *minimal* if no feasible schedule is cheaper in that order; then its TEL is the
optimum. Minimal schedules exist, since costs are pairs of non-negative integers. Let
budget >= optimum.

*Claim.* At every epoch tau, until a schedule whose total latency is the optimum has been found,
some kept state is the prefix of a minimal schedule whose twins start in order.

At tau = 0 the empty state is one (sort the starts of twins). Let it hold at tau, with kept state x
and minimal schedule S, and let y be the prefix of S at tau + 1: a child of x, which `expand`
enumerates unless it is pruned.

1. y is not pruned by its bound, nor is the branch towards it: bounds are at most
   SCALE * optimum <= SCALE * budget. (The budget is lowered only to one less than the total latency
   of a schedule found, so it stays >= optimum until an optimum is found.)
2. y is not improvable: S extends it, and a strictly cheaper variant of S would be feasible.
3. y obeys the twin rule, as S does.
4. If y is merged away or dominated, there is a state z at tau + 1 with the same started set, a cost
   no larger, and memory nowhere larger in later rounds; z was kept by the same tests as y. Complete
   z as S completes y: this schedule S' is feasible, and its cost, prefix plus rest, is at most that
   of S. As S is minimal, so is S'. Its twins start in order: a request and the one it is held to
   are both in z, which obeys the rule, or both in the rest, as in S, or the latter is in z and so
   starts earlier; z has none without the one it is held to. So z takes the place of y *with a
   minimal schedule of its own*, and 2. applies to S' in the next step. If z is itself merged away
   or dominated, repeat; the order in which states remove each other has no cycles (each removal
   refers to a state that is kept at the time, and the last one stays).

So the claim holds at tau + 1. Hence if an unrestricted run ends with no state left and without a
schedule of TEL <= budget, every schedule has TEL >= budget + 1; if it ends with one, the cheapest
found is optimal. (A mere induction on TEL would not do: rule 3 of *improvable* prunes prefixes of
optimal schedules that are not minimal, and dominance between states of equal TEL without the second
component could then keep a prefix that rule 3 removes later.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import IntArray, RequestColumns

from .state_arrays import Flags, Layer


@step
def _fits_at(
    i: int, t: int, j: int, starts: IntArray, history: IntArray, requests: RequestColumns
) -> bool:
    """Return whether request i, started at t, fits in all its rounds once request j is removed.

    j may be i itself; -1 removes no request.
    """
    s, o, _, M = requests
    H, last = len(history), t + o[i]
    begin, end, prompt = last, last, 0
    if j >= 0:
        begin, end, prompt = starts[j], starts[j] + o[j], s[j]
    r = last
    while r > t:
        own = prompt + r - begin if begin < r <= end else 0
        if history[r % H] - own + s[i] + r - t > M:
            break
        r -= 1
    return bool(r == t)


@step
def _could_be_earlier(
    i: int, starts: IntArray, history: IntArray, requests: RequestColumns
) -> bool:
    """Return whether a request that has just ended would have fitted earlier (rule 1)."""
    farthest = min(
        starts[i] - requests.arrival_times[i], len(history) - 1 - requests.output_lengths[i]
    )
    d = 1
    while d <= farthest and not _fits_at(i, starts[i] - d, i, starts, history, requests):
        d += 1
    return bool(d <= farthest)


@step
def _could_be_exchanged(
    i: int, t: int, starts: IntArray, history: IntArray, requests: RequestColumns
) -> bool:
    """Return whether an unstarted request would have fitted at t without a started one (rule 3)."""
    s, o, _, _ = requests
    for j in range(len(starts)):
        tj = starts[j]
        if tj < t or s[j] > s[i] or o[j] > o[i] or (tj == t and s[j] + o[j] == s[i] + o[i]):
            continue
        if _fits_at(i, t, j, starts, history, requests):
            return True
    return False


@inner
def improvable(epoch: int, starts: IntArray, history: IntArray, requests: RequestColumns) -> bool:
    """Return whether one of rules 1 to 3 of the module docstring applies to a state at ``epoch``.

    ``history[r % H]`` is the memory held in round r, for epoch - H < r <= epoch, with H greater
    than every output length. Rule 1 tries moves by at most H - 1 - o_i rounds; with fewer rounds it
    would prune less and still be valid.
    """
    _, o, a, _ = requests
    for i in range(len(o)):
        t = epoch - o[i]
        if starts[i] >= 0:
            if starts[i] == t and _could_be_earlier(i, starts, history, requests):
                return True
        elif t >= a[i]:
            if _fits_at(i, t, -1, starts, history, requests):
                return True
            if _could_be_exchanged(i, t, starts, history, requests):
                return True
    return False


@inner
def _below(c: int, b: int, profiles: npt.NDArray[np.uint8]) -> bool:
    """Return whether state c holds no more memory than state b in any later round.

    Active requests run without interruption, so a profile that reaches 0 stays 0.
    """
    for j in range(profiles.shape[1]):
        if profiles[c, j] > profiles[b, j]:
            return False
        if profiles[b, j] == 0:
            return True
    return True


@njit
def dominate(
    order: IntArray, begin: int, end: int, group: int, layer: Layer, alive: Flags, window: int
) -> int:
    """Clear ``alive`` of the dominated states at positions begin .. end - 1 of ``order``.

    Parameters
    ----------
    order : IntArray
        States sorted by (mask, cost).
    begin, end : int
        Positions of ``order`` to examine.
    group : int
        First position of the run of equal masks that contains position ``begin`` - 1; 0 in the
        first call.
    layer : Layer
        The states.
    alive : Flags
        One flag per state, cleared for dominated states.
    window : int
        Most cheaper states of the same mask with which a state is compared. A smaller window
        removes fewer states, but never a wrong one.

    Returns
    -------
    int
        The ``group`` to pass for ``end`` in the next call.
    """
    masks, profiles = layer.masks, layer.profiles
    for x in range(begin, end):
        b = order[x]
        for w in range(masks.shape[1]):
            if masks[b, w] != masks[order[group], w]:
                group = x
        for y in range(group, min(x, group + window)):
            c = order[y]
            if alive[c] and _below(c, b, profiles):
                alive[b] = False
                break
    return group
