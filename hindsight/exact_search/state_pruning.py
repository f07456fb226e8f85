"""States of the forward search that others make needless: dominance, and cheaper variants.

States, costs and symbols are those of `hindsight.exact_search.state_search_kernels`.

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

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit
from instances.arrays import IntArray, RequestColumns

AnyInts = npt.NDArray[Any]
"""Integers of the width that the state search chose: memory in a round, start times."""
Masks = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


class Rules(NamedTuple):
    """The rules in force, of this module and `state_search_kernels`; optima are the same without.

    Attributes
    ----------
    earlier, fits, exchange : bool, default True
        Rules 1, 2 and 3 of *improvable*.
    merge, dominance, twins, fixing : bool, default True
        As they are called in these modules.
    """

    earlier: bool = True
    fits: bool = True
    exchange: bool = True
    merge: bool = True
    dominance: bool = True
    twins: bool = True
    fixing: bool = True


@njit
def improvable(
    epoch: int,
    starts: IntArray,
    history: IntArray,
    requests: RequestColumns,
    rules: Rules,
    stats: IntArray,
) -> bool:
    """Whether one of the rules 1 to 3 of the module docstring applies to a state at ``epoch``.

    ``history[r % H]`` is the memory held in round r, for epoch - H < r <= epoch, with H greater
    than every output length. Rule 1 tries moves of up to H - 1 - o_i rounds: trying fewer prunes
    less, and is as sound. ``stats[:3]`` count the states that rules 1, 2 and 3 prune.
    """
    s, o, a, M = requests
    H, n = len(history), len(s)
    for i in range(n):
        t = starts[i]
        if t >= 0:
            if t + o[i] != epoch or not rules.earlier:
                continue
            for d in range(1, min(t - a[i], H - 1 - o[i]) + 1):
                fits = True
                for r in range(t - d + o[i], t - d, -1):
                    own = s[i] + r - t if r > t else 0
                    if history[r % H] - own + s[i] + r - t + d > M:
                        fits = False
                        break
                if fits:
                    stats[0] += 1
                    return True
        else:
            t = epoch - o[i]
            if t < a[i]:
                continue
            fits = rules.fits
            for r in range(epoch if fits else t, t, -1):
                if history[r % H] + s[i] + r - t > M:
                    fits = False
                    break
            if fits:
                stats[1] += 1
                return True
            for j in range(n if rules.exchange else 0):
                tj = starts[j]
                if tj < t or s[j] > s[i] or o[j] > o[i] or (tj == t and s[j] + o[j] == s[i] + o[i]):
                    continue
                fits = True
                for r in range(epoch, t, -1):
                    own = s[j] + r - tj if tj < r <= tj + o[j] else 0
                    if history[r % H] - own + s[i] + r - t > M:
                        fits = False
                        break
                if fits:
                    stats[2] += 1
                    return True
    return False


@njit
def _below(c: int, b: int, profiles: AnyInts, alone: bool) -> bool:
    """Whether state c never holds more memory than state b.

    Active requests run without interruption, so once a profile is 0 it stays 0, provided that they
    are ``alone``: without a background.
    """
    for j in range(profiles.shape[1]):
        if profiles[c, j] > profiles[b, j]:
            return False
        if alone and profiles[b, j] == 0:
            return True
    return True


@njit
def dominate(
    order: IntArray,
    begin: int,
    end: int,
    group: int,
    masks: Masks,
    profiles: AnyInts,
    alive: Flags,
    window: int,
    alone: bool,
) -> int:
    """Clear ``alive`` for positions begin .. end - 1 of ``order`` that another state dominates.

    ``order`` sorts states by (mask, cost). At most ``window`` cheaper states of the same mask are
    compared: fewer removals, never a wrong one.

    Parameters
    ----------
    order : IntArray
        States sorted by (mask, cost).
    begin, end : int
        Positions of ``order`` that are looked at.
    group : int
        Position where the run of equal masks begins that position ``begin`` - 1 belongs to; 0 to
        begin with.
    masks : Masks
        The requests that each state has started.
    profiles : AnyInts
        Memory that each state leaves held, round by round.
    alive : Flags
        Cleared for what is dominated.
    window : int
        States of the same mask compared at most.
    alone : bool
        Whether there is no background memory: then a profile that is 0 stays so.

    Returns
    -------
    int
        The same for ``end`` - 1, to go on with.
    """
    for x in range(begin, end):
        b = order[x]
        for w in range(masks.shape[1]):
            if masks[b, w] != masks[order[group], w]:
                group = x
        for y in range(group, min(x, group + window)):
            c = order[y]
            if alive[c] and _below(c, b, profiles, alone):
                alive[b] = False
                break
    return group
