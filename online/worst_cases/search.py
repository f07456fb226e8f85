"""Search for small instances that maximise a policy's proved competitive ratio.

An evolution strategy in rounds. Each round has `POPULATIONS` populations that evolve apart. Every
other population begins with the best cases known and the others without, so that an early success
does not decide everything. Drafts are compared by a lower bound on the policy's ratio (`Scorer`).
The best drafts of a round are solved to optimality (`prove`), and only proved cases are returned.

The search is deterministic: a population depends only on the policy, the space, the seed, the
round, its own index and the cases known when the round began. The time limit only decides after
which round the search ends. The exception is `PROOF_SECONDS`, the time limit of a single proof.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from instances import InvalidValueError
from instances.validation import as_integer, as_time_limit
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs

from .drafts import Draft, Space, crossed, mutated, neighbours, random_draft, shaped_draft
from .scoring import Case, Scorer, prove, size_of

POPULATIONS = 4
"""Populations per round."""

MEMBERS = 16
"""Drafts that survive a generation."""

OFFSPRING = 32
"""Drafts tried per generation."""

FIRST_DRAFTS = 64
"""Drafts drawn for a new population."""

EVALUATIONS = 1_200
"""Policy costs computed per population before it is polished."""

POLISH = 0.5
"""Share of as many evaluations again that polishing may take."""

SAME_RATIO = 3
"""Members of a population that may have the same ratio."""

KEPT = 2
"""Cases kept."""

STALLED = 200
"""Generations without a new draft after which a population ends."""

Scored = tuple[Fraction, Draft]


class Population(NamedTuple):
    """Best drafts of a population with scores, and an endless draft as in `WorstCases`."""

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
        Finished rounds.
    cases : tuple[Case, ...]
        Proved cases, best first, at most `KEPT`; of equal ratios the smaller instance first.
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
        """Return the state after one more round, with the best drafts of the round proved."""
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
        """Return the policy, the space, and the worst ratio with its instance."""
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
    rounds: int | None = None,
    seconds: float | None = None,
    evaluations: int = EVALUATIONS,
    progress: Callable[[WorstCases], None] | None = None,
) -> WorstCases:
    """Search for instances on which a policy's ratio to the optimum is largest.

    Ctrl-C ends the search; the finished rounds are returned if there are any.

    Parameters
    ----------
    policy : AnyPolicy
        As `online.simulate` takes it.
    space : Space
        The instances to search.
    seed : int, default 0
        Seed of every random choice.
    rounds : int or None, default None
        Rounds; None for 1, or as many as ``seconds`` allows.
    seconds : float or None, default None
        No round begins after this time.
    evaluations : int, default EVALUATIONS
        Policy costs that each of the four populations of a round computes before it is polished.
    progress : Callable[[WorstCases], None] or None, default None
        Called after each round.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A bad limit, or not one policy.
    PolicyError
        The policy broke a rule.
    """
    from hindsight.runtime.clock import Clock

    specs = policy_specs(policy)
    if len(specs) != 1:
        raise InvalidValueError(None, "policy", policy, "is not one policy")
    evaluations = as_integer(evaluations, None, "evaluations", minimum=1)
    seconds = as_time_limit(seconds, field="seconds")
    if rounds is not None or seconds is None:
        rounds = as_integer(1 if rounds is None else rounds, None, "rounds", minimum=1)
    clock = Clock(seconds)
    found = WorstCases(specs[0], space, as_integer(seed, None, "seed", minimum=0))
    try:
        while found.rounds != rounds and not (found.rounds and clock.must_stop()):
            found = found.after([_explore(found, k, evaluations) for k in range(POPULATIONS)])
            if progress is not None:
                progress(found)
    except KeyboardInterrupt:
        if not found.rounds:
            raise
    return found


def _explore(found: WorstCases, number: int, evaluations: int) -> Population:
    """Evolve one population, and polish its best draft."""
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
    """Return the last generation, best first."""
    while len(first) < min(FIRST_DRAFTS, evaluations):
        first.append((shaped_draft if rng.random() < 0.5 else random_draft)(rng, space))
    members = _survivors([(scorer.score(draft), draft) for draft in dict.fromkeys(first)])
    stalled = 0
    while members and scorer.evaluations < evaluations and stalled < STALLED:
        before = scorer.evaluations
        floor = members[-1][0] if len(members) == MEMBERS else Fraction(0)
        children: dict[Draft, None] = {}
        for _ in range(OFFSPRING):
            # The better of two random members: weak ones keep a chance.
            parent = members[min(int(k) for k in rng.integers(len(members), size=2))][1]
            if rng.random() < 0.15:
                other = members[int(rng.integers(len(members)))][1]
                parent = crossed(parent, other, rng, space)
            children[mutated(parent, rng, space)] = None
        members = _survivors([*members, *((scorer.score(one, floor), one) for one in children)])
        # A tiny space runs out of new drafts before it runs out of evaluations.
        stalled = stalled + 1 if scorer.evaluations == before else 0
    return members


def _survivors(scored: Iterable[Scored]) -> list[Scored]:
    """Return the best drafts, few of equal ratio, the smaller instances of those."""
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
    """Climb by single steps: to larger ratios, or to smaller instances of the same ratio."""
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
