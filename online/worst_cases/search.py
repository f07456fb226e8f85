"""Search for small instances on which a policy's proved ratio to the optimum is largest.

The search is an evolution strategy in rounds. In each search round `POPULATIONS` populations of
small instances (drafts) evolve independently. Every other population begins with the worst cases of
the earlier search rounds. The others begin with random instances only, so that an early success
does not decide the whole search. Instances are compared by a lower bound on the policy's ratio
(`Scorer`). The optima of the best instances of a search round are then proved (`prove`). Only
instances with proved optima are returned.

The search is deterministic, except for `PROOF_SECONDS`, the time limit of a single proof. A
population depends only on the policy, the limits on instances, the seed, the search round, its own
number and the worst cases of the earlier search rounds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from instances import InvalidValueError
from instances.validation import as_integer
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs

from .drafts import Draft, Space, crossed, mutated, neighbours, random_draft, shaped_draft
from .scoring import Case, Scorer, prove, size_of

POPULATIONS = 4
"""Number of populations of instances that evolve independently in each search round."""

MEMBERS = 16
"""Largest number of instances that a population keeps after a generation."""

OFFSPRING = 32
"""Number of new instances that a generation makes by mutation and crossing."""

FIRST_DRAFTS = 64
"""Number of instances that a population begins with."""

EVALUATIONS = 1_200
"""Number of instances on which a population simulates the policy before its local search."""

POLISH = 0.5
"""Limit on the instances simulated in the local search, as a share of the limit in evolution."""

SAME_RATIO = 3
"""Largest number of instances with equal ratios that a population keeps."""

KEPT = 2
"""Number of proved worst cases that the search returns."""

STALLED = 200
"""A population ends after this many successive generations without a new instance."""

Scored = tuple[Fraction, Draft]


class Population(NamedTuple):
    """Result of the evolution of one population.

    Attributes
    ----------
    best : tuple[Scored, ...]
        Instances of the last generation, each with a lower bound on the policy's ratio. The largest
        bound is first.
    endless : tuple[Draft, str] or None
        The smallest instance (draft) on which the policy never serves some request, and the status
        of the run.
    """

    best: tuple[Scored, ...]
    endless: tuple[Draft, str] | None


@dataclass(frozen=True)
class WorstCases:
    """Worst cases of a policy found by `search`.

    Attributes
    ----------
    spec, space, seed : PolicySpec, Space, int
        The arguments of `search`.
    rounds : int
        Number of finished rounds of the search.
    cases : tuple[Case, ...]
        At most `KEPT` instances with proved ratios, the largest ratio first. Of equal ratios the
        smaller instance is first.
    endless : tuple[Draft, str] or None
        The smallest instance (draft) on which the policy never serves some request, and the status
        of the run.
    """

    spec: PolicySpec
    space: Space
    seed: int = 0
    rounds: int = 0
    cases: tuple[Case, ...] = ()
    endless: tuple[Draft, str] | None = None

    def after(self, populations: Sequence[Population]) -> WorstCases:
        """Return the worst cases after one more search round, which ended with ``populations``.

        The optimum is proved for up to `KEPT` instances whose ratios may exceed those of the
        present worst cases.
        """
        found = {case.draft: case for case in self.cases}
        bar = self.cases[-1].ratio if len(self.cases) == KEPT else Fraction(0)
        scored = {one for population in populations for one in population.best}
        better = {(score, draft) for score, draft in scored if score > bar and draft not in found}
        for _, draft in _survivors(better)[:KEPT]:
            case = prove(self.spec, draft)
            if case is not None:
                found[draft] = case
        ranked = sorted(found.values(), key=lambda case: (-case.ratio, size_of(case.draft)))
        endless = filter(None, [self.endless, *(one.endless for one in populations)])
        smallest = min(endless, key=lambda one: size_of(one[0]), default=None)
        cases = tuple(ranked[:KEPT])
        return replace(self, rounds=self.rounds + 1, cases=cases, endless=smallest)

    def __str__(self) -> str:
        """Return a line of text: the policy, the limits on instances, and the worst case."""
        name = f"{self.spec.label}, {self.space}"
        if not self.cases:
            return f"{name}: no optimum was proved"
        worst = self.cases[0]
        text = f"{name}: {float(worst.ratio):.4f} on {worst.draft}"
        return text if self.endless is None else f"{text}; never ends on {self.endless[0]}"


def search(
    policy: AnyPolicy,
    space: Space,
    *,
    seed: int = 0,
    rounds: int = 1,
    evaluations: int = EVALUATIONS,
    progress: Callable[[WorstCases], None] | None = None,
) -> WorstCases:
    """Search for instances on which a policy's ratio to the optimum is largest.

    Ctrl-C ends the search. If at least one round is finished, its worst cases are returned.

    Parameters
    ----------
    policy : AnyPolicy
        The policy, in a form that `online.simulate` takes.
    space : Space
        Limits on the instances.
    seed : int, default 0
        Seed of all random choices.
    rounds : int, default 1
        Number of search rounds. In each, every other population begins with the worst cases found
        so far.
    evaluations : int, default EVALUATIONS
        Number of instances on which each of the four populations of a search round simulates the
        policy. A local search from the best instance follows.
    progress : Callable[[WorstCases], None] or None, default None
        Called after each search round with the worst cases found so far.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A limit is out of its range, or ``policy`` is not one policy.
    PolicyError
        The policy made an invalid decision.
    """
    specs = policy_specs(policy)
    if len(specs) != 1:
        raise InvalidValueError(None, "policy", policy, "is not one policy")
    evaluations = as_integer(evaluations, None, "evaluations", minimum=1)
    rounds = as_integer(rounds, None, "rounds", minimum=1)
    found = WorstCases(specs[0], space, as_integer(seed, None, "seed", minimum=0))
    try:
        while found.rounds < rounds:
            found = found.after([_explore(found, k, evaluations) for k in range(POPULATIONS)])
            if progress is not None:
                progress(found)
    except KeyboardInterrupt:
        if not found.rounds:
            raise
    return found


def _explore(found: WorstCases, number: int, evaluations: int) -> Population:
    """Evolve population ``number`` of the next search round, then improve its best instance.

    `_polish` does the second step by local search. Each population has its own random numbers.
    """
    label = f"{found.spec.label}: {found.space}".encode()
    rng = np.random.default_rng([found.seed, zlib.crc32(label), found.rounds, number])
    scorer = Scorer(found.spec)
    known = [case.draft for case in found.cases] if number % 2 == 0 else []
    best = _evolve(scorer, found.space, known, evaluations, rng)
    if best:
        polished = _polish(scorer, found.space, best[0], int(POLISH * evaluations))
        best = [polished, *best[1:2]]
    return Population(tuple(best), scorer.endless)


def _evolve(
    scorer: Scorer, space: Space, first: list[Draft], evaluations: int, rng: np.random.Generator
) -> list[Scored]:
    """Evolve a population of small instances (drafts), which begins with ``first`` and random ones.

    Return the last generation. Each instance has a lower bound on the policy's ratio to the
    optimum, and the largest bound is first. No generation begins after ``evaluations`` instances
    have been simulated.
    """
    while len(first) < min(FIRST_DRAFTS, evaluations):
        first.append((shaped_draft if rng.random() < 0.5 else random_draft)(rng, space))
    members = _survivors([(scorer.score(draft), draft) for draft in dict.fromkeys(first)])
    stalled = 0
    while members and scorer.evaluations < evaluations and stalled < STALLED:
        before = scorer.evaluations
        floor = members[-1][0] if len(members) == MEMBERS else Fraction(0)
        children: dict[Draft, None] = {}
        for _ in range(OFFSPRING):
            # The parent is the better of two random members of the population (members are sorted).
            # So better members are parents more often, but every member can be one.
            parent = members[min(int(k) for k in rng.integers(len(members), size=2))][1]
            if rng.random() < 0.15:
                other = members[int(rng.integers(len(members)))][1]
                parent = crossed(parent, other, rng, space)
            children[mutated(parent, rng, space)] = None
        members = _survivors([*members, *((scorer.score(one, floor), one) for one in children)])
        # In a tiny space all drafts have soon been simulated. The number of evaluations then stops
        # growing, and only the limit on ``stalled`` ends the loop.
        stalled = stalled + 1 if scorer.evaluations == before else 0
    return members


def _survivors(scored: Iterable[Scored]) -> list[Scored]:
    """Return the instances with the largest ratios, at most `MEMBERS`, the largest ratio first.

    Of instances with equal ratios only the `SAME_RATIO` smallest are kept. Instances of ratio 0 are
    dropped. A ratio is a lower bound on the policy's ratio to the optimum.
    """
    ranked = sorted(set(scored), key=lambda one: (-one[0], size_of(one[1]), one[1]))
    kept: list[Scored] = []
    for score, draft in ranked:
        equals = sum(score == other for other, _ in kept[-SAME_RATIO:])
        if score > 0 and equals < SAME_RATIO:
            kept.append((score, draft))
        if len(kept) == MEMBERS:
            break
    return kept


def _polish(scorer: Scorer, space: Space, start: Scored, evaluations: int) -> Scored:
    """Improve an instance by local search. Replace it by a better neighbour while one exists.

    A neighbour is better if its ratio is larger, or if it is smaller and has the same ratio. The
    search also ends when about ``evaluations`` instances have been simulated.
    """
    score, draft = start
    last = scorer.evaluations + evaluations
    improved = True
    while improved and scorer.evaluations < last:
        improved = False
        for near in neighbours(draft, space):
            floor = score if size_of(near) >= size_of(draft) else score * Fraction(999, 1000)
            found = scorer.score(near, floor)
            if found > score or (found == score and size_of(near) < size_of(draft)):
                score, draft, improved = found, near, True
                break
            if scorer.evaluations >= last:
                break
    return score, draft
