"""Runs of a sandboxed policy against proved bounds, on named instances and on fresh draws."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from instances import Instance, LibraryEntry, generate
from instances.catalogue.records import RecordStore
from instances.problem.memory_rule import TOKENS
from online.comparison.ratios import Interval
from online.comparison.trial import one_line
from online.policy_interface.predictions import IntervalPredictions, PredictionModel
from online.simulation.simulator import simulate

from .sandbox import Limits, PlayerError, SandboxedPolicy, check_limits

NAMED, FRESH = "named", "fresh"
"""Where an instance is from: the library, or the secret seed."""

SCORED, IMPOSSIBLE = "scored", "impossible"
"""Statuses of a run that has a ratio, and of one whose ratio is below 1."""


@dataclass(frozen=True)
class Case:
    """An instance and the proved bounds on its least total latency.

    Attributes
    ----------
    name, origin : str
        Its name, and `NAMED` or `FRESH`.
    instance : Instance
        The instance.
    lower, upper : int
        Rounds: a proved bound, and the total latency of a schedule.
    """

    name: str
    origin: str
    instance: Instance
    lower: int
    upper: int


@dataclass(frozen=True)
class Ruling:
    """What came of a run.

    Attributes
    ----------
    case : Case
        On what.
    status : str
        `SCORED`, `IMPOSSIBLE`, ``"time-limit"``, ``"memory-limit"``, ``"died"``, ``"failed"``, or
        how a run ended that left requests unserved.
    total_latency : int or None
        Rounds, where every request was served.
    reason : str
        Why there is no score; empty where there is one.
    """

    case: Case
    status: str
    total_latency: int | None = None
    reason: str = ""

    @property
    def ratio(self) -> Interval:
        """Total latency over the optimum, certified; unknown without a score."""
        if self.total_latency is None or self.status != SCORED:
            return Interval(None, None)
        # Its own run is a schedule too.
        least = min(self.case.upper, self.total_latency)
        return Interval.of_share(self.total_latency, Interval.between(self.case.lower, least))


def can_be_refereed(entry: LibraryEntry) -> bool:
    """Tell whether an instance counts total latency in rounds and memory in tokens."""
    in_rounds = entry.goal == "total_latency" and entry.batch_time is None
    return (
        in_rounds and isinstance(entry.instance, Instance) and entry.instance.memory_rule == TOKENS
    )


def library_cases(entries: Iterable[LibraryEntry], store: RecordStore) -> list[Case]:
    """Return the instances that can be refereed, with what their records prove."""
    found = []
    for entry in entries:
        record = store.record(entry)
        if record is not None and can_be_refereed(entry):
            bounds = int(record.lower_bound), int(record.upper_bound)
            found.append(Case(entry.name, NAMED, entry.problem, *bounds))
    return found


def fresh_cases(
    entries: Iterable[LibraryEntry], count: int, secret: str, seconds: float
) -> Iterator[Case]:
    """Draw instances of the same families, none of which anybody can know without the secret.

    Parameters
    ----------
    entries : Iterable[LibraryEntry]
        Those that were drawn give their generators and parameters, in turn.
    count : int
        How many; none where no entry was drawn.
    secret : str
        Any text; equal texts draw equal instances.
    seconds : float
        For the proof of each one's bounds.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C was pressed during a proof.
    """
    import hindsight

    recipes = {
        repr((one.recipe["generator"], one.recipe["parameters"])): (one.name, one.recipe)
        for one in entries
        if one.recipe is not None and can_be_refereed(one)
    }
    for number in range(count if recipes else 0):
        like, recipe = [*recipes.values()][number % len(recipes)]
        digest = hashlib.sha256(f"{secret}\n{like}\n{number}".encode()).digest()
        seed = int.from_bytes(digest[:6], "big")
        instance = generate(recipe["generator"], seed, **recipe["parameters"])
        result = hindsight.solve(instance, time_limit=seconds, threads=1)
        if result.stop_reason == "interrupted":
            # A solve answers Ctrl-C with the bounds so far, which nobody asked for here.
            raise KeyboardInterrupt
        lower, upper = result.certified_lower_bound, result.upper_bound
        if lower is not None and upper is not None:
            yield Case(f"fresh-{number}, like {like}", FRESH, instance, int(lower), int(upper))


def judge(
    text: str, cases: Sequence[Case], limits: Limits, *, intervals: bool = False
) -> Iterator[Ruling]:
    """Yield what comes of a policy on each case, each run in a process of its own.

    Parameters
    ----------
    text : str
        The policy: ``my_policy.py:MyPolicy`` or a registered name.
    cases : Sequence[Case]
        On what.
    limits : Limits
        Of each run.
    intervals : bool, default False
        Tell it the least and the largest output length of each instance, not each length.
    """
    check_limits(limits)
    for case in cases:
        told: PredictionModel | None = None
        if intervals:
            outputs = case.instance.output_lengths
            told = IntervalPredictions(int(outputs.min()), int(outputs.max()))
        yield _run(text, case, limits, told)


def _run(text: str, case: Case, limits: Limits, told: PredictionModel | None) -> Ruling:
    try:
        policy = SandboxedPolicy(text, limits)
    except PlayerError as error:
        return Ruling(case, error.status, reason=str(error))
    try:
        run = simulate(case.instance, policy, predictions=told, should_stop=policy.must_stop)
    except PlayerError as error:
        return Ruling(case, error.status, reason=str(error))
    except Exception as error:  # noqa: BLE001 (whatever its decisions break)
        return Ruling(case, "failed", reason=one_line(error))
    finally:
        policy.close()
    if run.status != "completed":
        return Ruling(case, run.status, reason="requests were left unserved")
    total = int(run.total_latency)
    if total < case.lower:
        reason = (
            f"its total latency of {total} rounds is below {case.lower}, which is proved to be the "
            "least: a cheat, or a fault in the bound"
        )
        return Ruling(case, IMPOSSIBLE, total, reason)
    return Ruling(case, SCORED, total)
