"""Search for small instances that maximise a policy's proved competitive ratio.

The search is an evolution strategy in rounds. In each round `POPULATIONS` populations of drafts
(small instances) evolve independently. Every other population begins with the worst cases of the
rounds before, the others with random drafts only, so that an early success does not decide
everything. Drafts are compared by a lower bound on the policy's ratio (`Scorer`). The best drafts
of a round are solved to optimality (`prove`), and only proved cases are returned.

The search is deterministic: a population depends only on the policy, the space, the seed, the
round, its own index and the cases of the rounds before. The exception is `PROOF_SECONDS`, the time
limit of a single proof.
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
"""Number of populations of instances that evolve independently in a round of the search."""

MEMBERS = 16
"""Number of instances that a population keeps after a generation."""

OFFSPRING = 32
"""Number of new instances that a generation makes by mutation and crossing."""

FIRST_DRAFTS = 64
"""Number of instances that a population begins with."""

EVALUATIONS = 1_200
"""Number of instances on which a population simulates the policy before its local search."""

POLISH = 0.5
"""Limit on the instances simulated in the local search: this share of the limit in evolution."""

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
        Drafts of the last generation with lower bounds on their ratios, the largest first.
    endless : tuple[Draft, str] or None
        The smallest draft on which the policy never serves some request, and the run's status.
    """

    best: tuple[Scored, ...]
    endless: tuple[Draft, str] | None


@dataclass(frozen=True)
class WorstCases:
    """Worst cases of a policy found by `search`.

    Attributes
    ----------
    spec, space, seed : PolicySpec, Space, int
        The arguments of the search.
    rounds : int
        Number of finished rounds of the search.
    cases : tuple[Case, ...]
        At most `KEPT` instances with proved ratios, the largest ratio first. Of equal ratios the
        smaller instance is first.
    endless : tuple[Draft, str] or None
        The smallest draft on which the policy never serves some request, and the run's status.
    """

    spec: PolicySpec
    space: Space
    seed: int = 0
    rounds: int = 0
    cases: tuple[Case, ...] = ()
    endless: tuple[Draft, str] | None = None

    def after(self, populations: Sequence[Population]) -> WorstCases:
        """Return the worst cases after one more round, which ended with the given populations.

        For up to `KEPT` drafts whose ratios may exceed those of the present cases, the optimum is
        proved.
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
        """Return a line of text: policy, space, and largest proved ratio with its instance."""
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
        Number of rounds. Every other population of a round begins with the worst cases found so
        far.
    evaluations : int, default EVALUATIONS
        Number of instances on which each of the four populations of a round simulates the policy,
        before a local search from its best one.
    progress : Callable[[WorstCases], None] or None, default None
        Called after each round with the worst cases until then.

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
    """Evolve population ``number`` of the next search round. Improve its best instance.

    `_polish` improves it by local search. Each population has its own random numbers.
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
    """Evolve a population that begins with the drafts ``first`` and random ones.

    Return the last generation, with lower bounds on the ratios, the largest first. About
    ``evaluations`` drafts are simulated at most.
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
            # The parent is the better of two random members of the population. So each member has a
            # chance to become a parent.
            parent = members[min(int(k) for k in rng.integers(len(members), size=2))][1]
            if rng.random() < 0.15:
                other = members[int(rng.integers(len(members)))][1]
                parent = crossed(parent, other, rng, space)
            children[mutated(parent, rng, space)] = None
        members = _survivors([*members, *((scorer.score(one, floor), one) for one in children)])
        # In a tiny space all drafts have soon been simulated. Then the number of evaluations stops
        # growing, and only ``stalled`` ends the loop.
        stalled = stalled + 1 if scorer.evaluations == before else 0
    return members


def _survivors(scored: Iterable[Scored]) -> list[Scored]:
    """Return the drafts with the largest ratios, at most `MEMBERS`, the largest ratio first.

    Of drafts with equal ratios only the `SAME_RATIO` smallest are kept. Drafts of ratio 0 are
    dropped.
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
    """Improve a draft by local search: replace it by a neighbour of larger ratio until none exists.

    A neighbour of equal ratio and smaller size counts as an improvement too. About ``evaluations``
    drafts are simulated at most.
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
