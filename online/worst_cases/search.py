"""Search for small instances that maximise a policy's proved competitive ratio.

An evolution strategy in rounds. A round consists of `ISLANDS` populations that evolve apart: every
other one begins with the best cases known, the rest from nothing, so that one early success does
not decide everything. What is compared within a population is a ratio that the policy has *at
least* (`Scorer`); the best that land are then solved to optimality and certified (`prove`), and
only they enter the archive.

Deterministic: an island's course depends on the target, the seed, the round, its own index and the
cases known when the round began; not on the number of processes nor on the clock. A time limit only
decides after which round to stop (the limit of a single proof aside, `PROOF_SECONDS`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hindsight.runtime.clock import Clock
from instances.validation import as_integer, as_time_limit
from online.runtime.processes import WorkerPool

from .drafts import Draft, crossed, mutated, neighbours, random_draft, shaped_draft
from .scoring import Case, Scorer, Target, prove, size_of

ISLANDS = 4
"""Populations in a round."""

POPULATION = 16
"""Drafts that survive a generation."""

OFFSPRING = 32
"""Drafts tried in a generation."""

FIRST_DRAFTS = 64
"""Drafts drawn for a new population."""

EVALUATIONS = 1_200
"""Policy costs computed by an island before it is polished."""

POLISH = 0.5
"""Share of as many evaluations again that polishing may take."""

SAME_RATIO = 3
"""Members of a population that may have the same ratio."""

KEPT = 2
"""Cases an archive keeps for a target."""

Scored = tuple[Fraction, Draft]


@dataclass(frozen=True)
class IslandResult:
    """Result of an island.

    Its best drafts with their scores, the policy costs computed, and the smallest draft on which
    the policy never serves some request.
    """

    best: tuple[Scored, ...]
    evaluations: int
    endless: tuple[Draft, str] | None


@dataclass(frozen=True)
class SearchState:
    """State of the search for a target after some rounds.

    Attributes
    ----------
    target, seed, shapes : Target, int, bool
        Of the search.
    rounds : int
        Finished.
    evaluations : int
        Policy costs computed in them.
    unproved : int
        Promising drafts whose optimum was not proved in time, or whose runs did not end.
    cases : tuple[Case, ...]
        Proved, best first, at most `KEPT`; of equal ratios the smaller instance.
    endless : tuple[Draft, str] or None
        The smallest draft on which the policy never serves some request, with the status.
    """

    target: Target
    seed: int = 0
    shapes: bool = True
    rounds: int = 0
    evaluations: int = 0
    unproved: int = 0
    cases: tuple[Case, ...] = ()
    endless: tuple[Draft, str] | None = None

    def after(self, landings: Sequence[IslandResult]) -> SearchState:
        """Return the state after one more round, for which the best that landed is proved."""
        found = {case.draft: case for case in self.cases}
        unproved = 0
        for draft in self._worth_a_proof(landings):
            case = prove(self.target, draft)
            if case is None:
                unproved += 1
            else:
                found[draft] = case
        ranked = sorted(found.values(), key=lambda case: (-case.ratio, size_of(case.draft)))
        endless = [e for e in (self.endless, *(one.endless for one in landings)) if e]
        return replace(
            self,
            rounds=self.rounds + 1,
            evaluations=self.evaluations + sum(landing.evaluations for landing in landings),
            unproved=self.unproved + unproved,
            cases=tuple(ranked[:KEPT]),
            endless=min(endless, key=lambda e: size_of(e[0]), default=None),
        )

    def _worth_a_proof(self, landings: Sequence[IslandResult]) -> list[Draft]:
        """List the drafts of largest score that are better than the cases kept, at most as many."""
        bar = self.cases[-1].ratio if len(self.cases) == KEPT else Fraction(0)
        known = {case.draft for case in self.cases}
        landed = {scored for landing in landings for scored in landing.best}
        better = [(r, d) for r, d in landed if r > bar and d not in known]
        return [draft for _, draft in _survivors(better)[:KEPT]]

    def elites(self, index: int) -> tuple[Draft, ...]:
        """Return the drafts that an island of the next round begins with, if any."""
        return tuple(case.draft for case in self.cases) if index % 2 == 0 else ()


Island = tuple[SearchState, int, int]
"""A search, the index of the island in its next round, and policy costs before polishing.

They decide the island's course.
"""


def search(
    standings: Iterable[SearchState],
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    evaluations: int = EVALUATIONS,
    progress: Callable[[SearchState], None] | None = None,
) -> list[SearchState]:
    """Search from each standing in turn, round by round; one round where there is no limit.

    Parameters
    ----------
    standings : Iterable[SearchState]
        Where to begin or go on.
    rounds : int or None, default None
        For each.
    seconds : float or None, default None
        After which no standing's round is begun, once each has had one.
    jobs : int, default 1
        Processes; the result does not depend on it. New processes import the main module afresh, so
        a script must guard its entry with ``if __name__ == "__main__"``.
    evaluations : int, default EVALUATIONS
        Policy costs an island computes before polishing.
    progress : Callable[[SearchState], None] or None, default None
        Told of each standing after each of its rounds; the place to save it.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A bad limit, or a policy that cannot be sent to another process.
    PolicyError
        A policy broke a rule.
    WorkerDiedError
        Processes die of the search.
    """
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    evaluations = as_integer(evaluations, None, "evaluations", minimum=1)
    if rounds is not None:
        rounds = as_integer(rounds, None, "rounds", minimum=1)
    current = list(standings)
    seconds = as_time_limit(seconds, field="seconds")
    clock = Clock(seconds)
    passes = 0
    if jobs > 1:
        for one in current:
            one.target.spec.check_sendable()
    with _mapper(jobs) as run_all:
        while True:
            # Those behind first: where the time ends in the middle of a pass, the next makes up.
            order = sorted(range(len(current)), key=lambda k: current[k].rounds)
            work = [(current[k], index, evaluations) for k in order for index in range(ISLANDS)]
            landings = run_all(work)
            for k in order:
                if passes and clock.must_stop():
                    return current
                current[k] = current[k].after([next(landings) for _ in range(ISLANDS)])
                if progress is not None:
                    progress(current[k])
            passes += 1
            if passes == rounds or (rounds is None and seconds is None):
                return current


@contextmanager
def _mapper(jobs: int) -> Iterator[Callable[[Sequence[Island]], Iterator[IslandResult]]]:
    """Give a function that yields the landings of islands in order."""
    if jobs == 1:
        yield lambda work: map(explore, work)
        return
    with WorkerPool[Island, IslandResult](jobs) as pool:
        yield lambda work: pool.map(explore, work)


def explore(island: Island) -> IslandResult:
    """Evolve one population and polish its best."""
    standing, index, evaluations = island
    target = standing.target
    label = f"{target.spec.label}: {target.setting}".encode()
    stream = [standing.seed, zlib.crc32(label), standing.rounds, index]
    scorer = Scorer(target)
    best = _evolve(scorer, island, np.random.default_rng(stream))
    if best:
        best = [_polish(scorer, best[0], int(POLISH * evaluations)), *best[1:2]]
    return IslandResult(tuple(best), scorer.evaluations, scorer.endless)


def _evolve(scorer: Scorer, island: Island, rng: np.random.Generator) -> list[Scored]:
    """Return the last population, best first."""
    standing, index, evaluations = island
    space = scorer.target.space
    first = list(standing.elites(index))
    while len(first) < min(FIRST_DRAFTS, evaluations):
        shaped = standing.shapes and rng.random() < 0.5
        first.append((shaped_draft if shaped else random_draft)(rng, space))
    members = _survivors([(scorer.score(draft), draft) for draft in dict.fromkeys(first)])
    stalled = 0
    while members and scorer.evaluations < evaluations and stalled < 200:
        before = scorer.evaluations
        floor = members[-1][0] if len(members) == POPULATION else Fraction(0)
        children: dict[Draft, None] = {}
        for _ in range(OFFSPRING):
            # The better of two: enough pressure, and nobody is out of the race.
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
    """Keep the best of them, few of equal ratio, the smaller instances of those."""
    ranked = sorted(set(scored), key=lambda one: (-one[0], size_of(one[1]), one[1]))
    kept: list[Scored] = []
    for score, draft in ranked:
        equals = sum(score == other for other, _ in kept[-SAME_RATIO:])
        if score > 0 and equals < SAME_RATIO:
            kept.append((score, draft))
        if len(kept) == POPULATION:
            break
    return kept


def _polish(scorer: Scorer, start: Scored, evaluations: int) -> Scored:
    """Climb by single steps: to larger ratios, or to smaller instances of the same."""
    score, draft = start
    last = scorer.evaluations + evaluations
    improved = True
    while improved and scorer.evaluations < last:
        improved = False
        for near in neighbours(draft, scorer.target.space):
            floor = score if size_of(near) >= size_of(draft) else score * Fraction(999, 1000)
            found = scorer.score(near, floor)
            if found > score or (found == score and size_of(near) < size_of(draft)):
                score, draft, improved = found, near, True
                break
            if scorer.evaluations >= last:
                break
    return score, draft
