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

from .drafts import Draft, all_drafts, crossed, mutated, neighbours, random_draft, shaped_draft
from .scoring import Case, Scorer, Target, lower_bound, prove, size_of

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
class Island:
    """One island's work, all that decides its course.

    Attributes
    ----------
    target : Target
        Whose ratio.
    seed, round_index, index : int
        Of its random stream.
    elites : tuple[Draft, ...]
        Drafts to begin with, none for a fresh start.
    evaluations : int
        Policy costs before polishing.
    shapes : bool
        Whether drafts of the known traps' shape are among the first (`shaped_draft`).
    """

    target: Target
    seed: int
    round_index: int
    index: int
    elites: tuple[Draft, ...]
    evaluations: int
    shapes: bool


@dataclass(frozen=True)
class IslandResult:
    """What an island found.

    Its best drafts with their scores, the policy costs computed, and the smallest draft on which
    the policy never serves some request.
    """

    best: tuple[Scored, ...]
    evaluations: int
    endless: tuple[Draft, str] | None


@dataclass(frozen=True)
class SearchState:
    """All that is known of a target after some rounds.

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
    hints : tuple[Draft, ...]
        Drafts to begin with besides the cases: what hurts one policy may hurt another.
    """

    target: Target
    seed: int = 0
    shapes: bool = True
    rounds: int = 0
    evaluations: int = 0
    unproved: int = 0
    cases: tuple[Case, ...] = ()
    endless: tuple[Draft, str] | None = None
    hints: tuple[Draft, ...] = ()

    def after(self, landings: Sequence[IslandResult]) -> SearchState:
        """With one more round: the best that landed is proved and takes its place."""
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
        """The drafts of largest score, as many as cases are kept, if better than those kept."""
        bar = self.cases[-1].ratio if len(self.cases) == KEPT else Fraction(0)
        known = {case.draft for case in self.cases}
        landed = {scored for landing in landings for scored in landing.best}
        better = [(r, d) for r, d in landed if r > bar and d not in known]
        return [draft for _, draft in _survivors(better)[:KEPT]]

    def islands(self, evaluations: int = EVALUATIONS) -> list[Island]:
        """The work of the next round."""
        space = self.target.space
        hints = (space.repaired(*draft) for draft in self.hints)
        known = tuple(dict.fromkeys([*(case.draft for case in self.cases), *hints]))
        return [
            Island(
                self.target,
                self.seed,
                self.rounds,
                index,
                known if index % 2 == 0 else (),
                evaluations,
                self.shapes,
            )
            for index in range(ISLANDS)
        ]


def search(
    standings: Iterable[SearchState],
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    evaluations: int = EVALUATIONS,
    progress: Callable[[SearchState], None] | None = None,
) -> list[SearchState]:
    """Rounds for each standing in turn, until one of the limits; one round where there is none.

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
            work = [island for k in order for island in current[k].islands(evaluations)]
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
    """A function that yields the landings of islands in order."""
    if jobs == 1:
        yield lambda work: map(explore, work)
        return
    with WorkerPool[Island, IslandResult](jobs) as pool:
        yield lambda work: pool.map(explore, work)


def explore(island: Island) -> IslandResult:
    """Evolve one population and polish its best."""
    target = island.target
    label = f"{target.spec.label}: {target.setting}".encode()
    stream = [island.seed, zlib.crc32(label), island.round_index, island.index]
    rng = np.random.default_rng(stream)
    scorer = Scorer(target)
    best = _evolve(scorer, island, rng)
    polished = _polish(scorer, best[0], int(POLISH * island.evaluations)) if best else None
    ranked = (polished, *best[1:2]) if polished is not None else ()
    return IslandResult(ranked, scorer.evaluations, scorer.endless)


def _evolve(scorer: Scorer, island: Island, rng: np.random.Generator) -> list[Scored]:
    """The last population, best first."""
    space = scorer.target.space
    first = list(island.elites)
    while len(first) < min(FIRST_DRAFTS, island.evaluations):
        shaped = island.shapes and rng.random() < 0.5
        first.append((shaped_draft if shaped else random_draft)(rng, space))
    members = _survivors([(scorer.score(draft), draft) for draft in dict.fromkeys(first)])
    stalled = 0
    while members and scorer.evaluations < island.evaluations and stalled < 200:
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
        scored = [(scorer.score(draft, floor), draft) for draft in children]
        members = _survivors([*members, *scored])
        # A tiny space runs out of new drafts before it runs out of evaluations.
        stalled = stalled + 1 if scorer.evaluations == before else 0
    return members


def _survivors(scored: Iterable[Scored]) -> list[Scored]:
    """The best of them, few of equal ratio, the smaller instances of those."""
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


@dataclass(frozen=True)
class Exhausted:
    """The worst of all instances of a space.

    Attributes
    ----------
    case : Case
        With the largest ratio; of equal ones the smallest.
    instances : int
        In the space.
    solved : int
        Whose optimum a solve had to prove; for the others bounds were enough.
    endless : int
        Instances on which the policy never serves some request; they are not in ``case``.
    """

    case: Case
    instances: int
    solved: int
    endless: int


def worst_of_all(target: Target, *, certify: bool = False) -> Exhausted:
    """Try every instance of a tiny space: the policy's worst ratio there, proved.

    An instance is passed over only where a lower bound on its optimum shows that its ratio does not
    exceed the largest one found.

    Raises
    ------
    ValueError
        An optimum was not proved in time, or no run served every request.
    """
    from .scoring import REPORT_SEEDS, policy_costs, upper_bound

    best: tuple[Fraction, Draft] | None = None
    optima: dict[tuple[Draft, bool], int] = {}
    count = solved = endless = 0
    for draft in all_drafts(target.space):
        count += 1
        costs = policy_costs(target, draft, REPORT_SEEDS)
        if costs.mean is None:
            endless += 1
            continue
        instance = draft.instance()
        floor = best[0] if best is not None else Fraction(0)
        bound = lower_bound(instance)
        if costs.mean / bound <= floor:
            continue
        twin = Draft(draft.memory_limit, tuple(sorted(draft.rows))), costs.preemptive
        if twin not in optima:
            optima[twin] = bound
            if upper_bound(instance, 200) > bound:
                case = prove(target, draft, certify=False)
                if case is None:
                    raise ValueError(f"the optimum of {draft} was not proved in time")
                solved += 1
                optima[twin] = case.optimum
        ratio = costs.mean / optima[twin]
        if ratio > floor:
            best = (ratio, draft)
    if best is None:
        raise ValueError("no run served every request")
    case = prove(target, best[1], certify=certify)
    assert case is not None
    return Exhausted(case, count, solved, endless)
