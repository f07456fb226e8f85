"""Certificates: what a solve found and why it is right, in a small file anyone can check.

A certificate holds the instance (rows and digest), a schedule and a proof of a lower bound, all in
integers; the format is described in docs/certificates.md. `hindsight.certificates.checking` checks
it without this module and without any solver. `write_certificate` runs that checker over the
document before it writes it, and claims exactly the bound that the checker confirms.

Any proof is good: nothing here is trusted. What is written is the best of

* *prices* from the solve: of states at epochs (`StatePrices`) or of memory
  (`hindsight.outcomes.proofs.MemoryPrices`), also by cases of when some requests start
  (`BranchedPrices`);
* *paths* that such prices leave none of (`hindsight.certificates.path_replay`), from a solve that
  followed them (`hindsight.outcomes.proofs.PathPrices`);
* a *state search* (`hindsight.certificates.replay`): the checker's own exhaustive search, run here
  first to see that it ends within `SEARCH_STATES`;
* a *window tree* (`hindsight.exact_search.branch_and_bound`), where one is asked for and the
  instance is small;

and, for a schedule that may stop requests, of prices of rounds (`PreemptivePrices`) or of memory.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from hindsight.bounds.memory_prices import round_prices
from hindsight.bounds.volume import fill_by_volume, filling_prices
from hindsight.configurations.prices import exact_bound, start_values
from hindsight.configurations.tables import state_copies
from hindsight.outcomes.proofs import (
    PRICE_SCALE,
    BranchedPrices,
    MemoryPrices,
    PathPrices,
    PreemptivePrices,
    Proof,
    StatePrices,
)
from hindsight.outcomes.results import SolveResult
from hindsight.preemption.prices import preemptive_price_bound
from hindsight.runtime.clock import Clock, never
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
)
from instances.arrays import IntArray
from instances.files import write_atomically
from instances.problem.memory_rule import TOKENS
from instances.problem.memory_translation import relaxed
from instances.validation import as_time_limit

from .checking import (
    Verdict,
    check_certificate,
    proved_bound,
    states_needed,
)
from .format import FORMAT, VERSION, CertificateError, CertificateTooLargeError
from .proofs import SearchFailedError

if TYPE_CHECKING:
    from hindsight.configurations.tables import ConfigurationCut
    from hindsight.exact_search.branch_and_bound import WindowTree


SEARCH_STATES = 500_000
"""Partial schedules up to which a search is written: a checker's minute or so."""


PATH_SCALES = (1 << 12, PRICE_SCALE)
"""Denominators tried for a proof by paths."""

SHORTER_SCALES = (1 << 6, 1 << 9, 1 << 12, 1 << 16)
"""Denominators tried in a certificate: the first that loses nothing is used."""


def make_certificate(
    schedule: Schedule | PreemptiveSchedule,
    proof: Proof | None = None,
    *,
    search: bool = True,
    tree: bool = True,
    time_limit: float | None = None,
) -> dict[str, Any]:
    """The certificate of a schedule, as a JSON-ready document.

    Parameters
    ----------
    schedule : Schedule or PreemptiveSchedule
        Feasible by the memory rule of its instance; the best known. The certificate of a
        `PreemptiveSchedule` bounds the preemptive optimum, by prices alone: what a search by states
        proved beyond them is not claimed.
    proof : Proof or None, default None
        Prices of the schedule's instance, for the same optimum; None: those of the volume
        relaxation.
    search : bool, default True
        Whether to look for a state search, where the prices alone do not prove the schedule
        optimal; it needs state prices.
    tree : bool, default True
        Whether to look for a window tree where the prices alone do not prove the schedule optimal,
        no search does, and the instance is small enough.
    time_limit : float or None, default None
        Seconds for everything, and for checking it once more; None for no limit. Proofs for which
        that is too short give way to those that take less, at last to outputs alone. An unfinished
        tree still proves a bound, and is written if that is the best.

    Raises
    ------
    InvalidValueError
        The schedule is infeasible, or the proof is of another optimum.
    """
    time_limit = as_time_limit(time_limit)
    violations = schedule.violations()
    if violations:
        raise InvalidValueError(None, "schedule", schedule, f"is infeasible: {violations[0]}")
    instance = schedule.instance
    preemptive = isinstance(schedule, PreemptiveSchedule)
    if isinstance(
        proof, StatePrices | PathPrices | BranchedPrices if preemptive else PreemptivePrices
    ):
        raise InvalidValueError(None, "proof", type(proof).__name__, "is of another optimum")
    memory_kind = "preemptive-memory-prices" if preemptive else "memory-prices"
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "instance": _instance_part(instance),
        **(
            {"stretches": [[list(stretch) for stretch in own] for own in schedule.stretches]}
            if isinstance(schedule, PreemptiveSchedule)
            else {"start_times": schedule.start_times.tolist()}
        ),
        "upper_bound": schedule.total_latency,
        "lower_bound": 0,
        "proof": {},
    }
    clock = _ProofClock(time_limit)
    # Proofs are about an instance in tokens below, of which the schedule is one too.
    instance = relaxed(instance)
    _take_best(document, _memory_part(memory_kind, _volume_prices(instance)), clock)
    part = None
    if isinstance(proof, MemoryPrices):
        _take_best(document, _memory_part(memory_kind, proof), clock)
    elif isinstance(proof, BranchedPrices):
        _take_best(document, _branched_part(proof), clock)
    elif isinstance(proof, PreemptivePrices):
        clock.begin()
        _take_best(document, _preemptive_part(instance, proof, clock.must_stop), clock)
    elif proof is not None:
        clock.begin()
        prices = proof.prices if isinstance(proof, PathPrices) else proof
        part = _state_part(instance, prices, clock.must_stop)
        _take_best(document, part, clock)
        if isinstance(proof, PathPrices):
            _take_paths(document, instance, proof, clock)
    if not document["proof"]:
        document["proof"] = {"kind": memory_kind, "scale": 1, "prices": []}
        document["lower_bound"] = proved_bound(document)
    if isinstance(schedule, PreemptiveSchedule):
        return document
    if search and part is not None and document["lower_bound"] < document["upper_bound"]:
        _search(document, part, clock)
    if tree and document["lower_bound"] < schedule.total_latency:
        from hindsight.exact_search.branch_and_bound import prove_by_windows, suits_tree

        in_tokens = Schedule(instance, schedule.start_times)
        if suits_tree(instance, in_tokens):
            clock.begin()
            found = prove_by_windows(instance, in_tokens, should_stop=clock.must_stop)
            if found.lower_bound > document["lower_bound"]:
                _take_best(document, _tree_part(found), clock)
    return document


def bound_of_prices(instance: Instance, proof: Proof, *, preemptive: bool = False) -> int:
    """The lower bound on total latency that prices prove, by the checker's own arithmetic.

    Parameters
    ----------
    instance : Instance
        In tokens.
    proof : Proof
        Any numbers prove something.
    preemptive : bool, default False
        Whether the bound is to hold for schedules that may stop requests.

    Raises
    ------
    InvalidValueError
        The prices are of another optimum, of another shape than the instance's, or more than the
        checker takes.
    """
    instance.require_tokens()
    states = proof.prices if isinstance(proof, PathPrices) else proof
    limit = instance.memory_limit
    if isinstance(states, StatePrices):
        if states.prices.ndim != 3 or states.prices.shape[1:] != (limit + 1, limit + 1):
            raise InvalidValueError("prices", "shape", states.prices.shape, "is of another M")
        if states.prices.size and int(states.prices.min()) < 0:
            raise InvalidValueError("prices", "minimum", int(states.prices.min()), "is negative")
    kind = "preemptive-memory-prices" if preemptive else "memory-prices"
    if isinstance(proof, MemoryPrices):
        part = _memory_part(kind, proof)
    elif isinstance(proof, PreemptivePrices) != preemptive:
        raise InvalidValueError(None, "prices", type(proof).__name__, "are of another optimum")
    elif isinstance(proof, PreemptivePrices):
        part = _preemptive_part(instance, proof, never)
    elif isinstance(proof, BranchedPrices):
        part = _branched_part(proof)
    elif isinstance(proof, PathPrices):
        part = _path_part(instance, proof, proof.prices.scale)
    else:
        part = _state_part(instance, proof, never)
    try:
        return proved_bound({"instance": _instance_part(instance), "proof": part})
    except (CertificateError, SearchFailedError) as error:
        raise InvalidValueError(None, "prices", type(proof).__name__, str(error)) from None


def _instance_part(instance: Instance) -> dict[str, Any]:
    counted = (
        {} if instance.memory_rule == TOKENS else {"memory_rule": asdict(instance.memory_rule)}
    )
    return {
        "memory_limit": instance.memory_limit,
        "requests": [
            [request.arrival_time, request.prompt_length, request.output_length]
            for request in instance
        ],
        "digest": instance.digest,
        **counted,
    }


class _ProofClock(Clock):
    """Time for proofs, each of which will be checked once more before it is written."""

    reserve = begun = 0.0

    def begin(self) -> None:
        """A proof is looked for, and checked, from now on."""
        self.begun = self.seconds()

    def must_stop(self) -> bool:
        """Whether neither this proof nor the one taken before could be checked once more."""
        return self.seconds_left() < max(self.reserve, self.seconds() - self.begun)

    def take(self) -> None:
        """Keep this proof as the one to be checked."""
        self.reserve = self.seconds() - self.begun


def write_certificate(
    result: SolveResult,
    path: str | os.PathLike[str],
    *,
    search: bool = True,
    tree: bool = True,
    time_limit: float | None = None,
) -> Verdict:
    """Certify the result of `hindsight.solve`, check the certificate and write it.

    The verdict's lower bound, the *verified* one, is what prices, the checker's own search or the
    window tree prove by themselves; it may be below ``result.certified_lower_bound`` where that
    came from an exhaustive search by other rules. Of the preemptive optimum no search is written.

    Parameters
    ----------
    result : SolveResult
        Of a solve, with preemption or without.
    path : str or os.PathLike
        Of the JSON file; replaced whole.
    search, tree, time_limit : bool, bool, float or None
        See `make_certificate`.

    Returns
    -------
    Verdict
        The checker's verdict on what was written.

    Raises
    ------
    InvalidTypeError
        Not the result of a solve in rounds.
    InvalidValueError
        The result is about the makespan.
    OSError
        The file cannot be written; no partial file is left.
    """
    if not isinstance(result, SolveResult):
        raise InvalidTypeError(None, "result", result, "is not a SolveResult")
    if result.objective != "total_latency":
        raise InvalidValueError("result", "objective", result.objective, "is not total_latency")
    document = make_certificate(
        result.schedule, result.proof, search=search, tree=tree, time_limit=time_limit
    )
    verdict = check_certificate(document)
    write_atomically(path, json.dumps(document, separators=(",", ":")) + "\n")
    return verdict


def _search(document: dict[str, Any], part: dict[str, Any], clock: _ProofClock) -> None:
    """Let the checker's search prove the schedule optimal, if it does within the limits."""
    budget = document["upper_bound"] - 1
    proof = {**part, "kind": "state-search", "budget": budget, "kept": SEARCH_STATES}
    clock.begin()
    kept = states_needed({**document, "proof": proof}, should_stop=clock.must_stop)
    if kept is not None:
        clock.take()
        document["proof"], document["lower_bound"] = {**proof, "kept": kept}, budget + 1


def _take_best(document: dict[str, Any], part: dict[str, Any], clock: _ProofClock) -> None:
    """Put a proof into the document, and claim its bound, if that is better than what is there.

    A proof that takes more than the checker does, or than there is time, proves nothing.
    """
    clock.begin()
    with contextlib.suppress(CertificateTooLargeError):
        bound = max(0, proved_bound({**document, "proof": part}, clock.must_stop))
        if not document["proof"] or bound > document["lower_bound"]:
            clock.take()
            document["proof"], document["lower_bound"] = part, bound


def _volume_prices(instance: Instance) -> MemoryPrices:
    return round_prices(filling_prices(fill_by_volume(instance)), instance)


def _memory_part(kind: str, prices: MemoryPrices) -> dict[str, Any]:
    return {
        "kind": kind,
        "scale": prices.denominator,
        "prices": prices.numerators.tolist(),
    }


def _branched_part(proof: BranchedPrices) -> dict[str, Any]:
    return {
        "kind": "branched-memory-prices",
        "scale": 1,
        "nodes": [
            {"scale": node.denominator, "prices": node.numerators.tolist()}
            if isinstance(node, MemoryPrices)
            else list(node)
            for node in proof.nodes
        ],
    }


def _state_part(
    instance: Instance, proof: StatePrices, must_stop: Callable[[], bool]
) -> dict[str, Any]:
    """State prices in the shortest units that lose nothing of the bound, or in those there are."""
    copies = state_copies(instance.prompt_lengths, instance.output_lengths, instance.memory_limit)
    m, r = np.nonzero(copies)
    Q = _up_to_the_last(proof.prices[:, m, r])
    last = len(Q)
    lengths = (instance.prompt_lengths, instance.output_lengths, instance.arrival_times)

    def bound(scale: int) -> int:
        """With the prices rounded to multiples of 1 / scale."""
        full = np.zeros((last, *copies.shape), dtype=np.int64)
        full[:, m, r] = rounded(scale) * (PRICE_SCALE // scale)
        return exact_bound(full, *lengths, instance.memory_limit, copies)

    def rounded(scale: int) -> IntArray:
        return (Q * scale + proof.scale // 2) // proof.scale

    scale = _shortest_scale(PRICE_SCALE, bound, must_stop)
    return {
        "kind": "state-prices",
        "scale": scale,
        "states": np.column_stack([m, r]).tolist(),
        "prices": rounded(scale).tolist(),
    }


def _up_to_the_last(prices: IntArray) -> IntArray:
    """Rows up to the last in which anything has a price."""
    return prices[: int(np.max(np.flatnonzero(prices.any(axis=1)), initial=-1)) + 1]


def _take_paths(
    document: dict[str, Any], instance: Instance, proof: PathPrices, clock: _ProofClock
) -> None:
    """Take a proof by paths in the shortest units in which no path is left, if there are some."""
    if proof.limit < document["lower_bound"]:
        return
    for scale in PATH_SCALES:
        with contextlib.suppress(SearchFailedError):
            _take_best(document, _path_part(instance, proof, scale), clock)
            return


def _path_part(instance: Instance, proof: PathPrices, scale: int) -> dict[str, Any]:
    """A proof by paths in units of 1 / scale."""
    full, table = proof.prices.scale, proof.prices.prices
    lengths = (instance.prompt_lengths, instance.output_lengths, instance.arrival_times)
    m, r = np.nonzero(state_copies(*lengths[:2], instance.memory_limit))
    least = start_values(table, *lengths)[1][:, 0]

    def rounded(prices: IntArray) -> list[Any]:
        listed: list[Any] = ((prices * scale + full // 2) // full).tolist()
        return listed

    stages: list[dict[str, Any]] = []
    followed = np.zeros(len(instance), dtype=np.bool_)
    for stage in proof.stages:
        prices = {"start_prices": rounded((stage.start_prices - least)[followed])}
        if stages and stages[-1] == {**prices, "followed": [], "tracked": []}:
            stages.pop()
        told_apart = {"followed": list(stage.followed), "tracked": list(stage.tracked)}
        stages.append({**prices, **told_apart})
        followed[list(stage.followed)] = True
    return {
        "kind": "path-search",
        "scale": scale,
        "states": np.column_stack([m, r]).tolist(),
        "prices": rounded(_up_to_the_last(table[:, m, r])),
        "limit": proof.limit,
        "stages": stages,
    }


def _preemptive_part(
    instance: Instance, proof: PreemptivePrices, must_stop: Callable[[], bool]
) -> dict[str, Any]:
    """Prices of rounds in the shortest units that lose nothing, without those nobody pays."""
    table = proof.numerators

    def rounded(scale: int) -> IntArray:
        return (table * scale + proof.denominator // 2) // proof.denominator

    def bound(scale: int) -> int:
        return preemptive_price_bound(instance, PreemptivePrices(rounded(scale), scale))

    scale = _shortest_scale(proof.denominator, bound, must_stop)
    last = int(np.max(np.flatnonzero(table.any(axis=1)), initial=0))
    prices = rounded(scale)[1 : last + 1]
    if proof.is_linear:
        return _memory_part(
            "preemptive-memory-prices", MemoryPrices(np.ascontiguousarray(prices[:, 0]), scale)
        )
    levels = np.zeros(table.shape[1], dtype=bool)
    for s, o in set(
        zip(instance.prompt_lengths.tolist(), instance.output_lengths.tolist(), strict=True)
    ):
        levels[s + 1 : s + o + 1] = True
    tokens = np.flatnonzero(levels & prices.any(axis=0))
    return {
        "kind": "preemptive-prices",
        "scale": scale,
        "tokens": tokens.tolist(),
        "prices": prices[:, tokens].tolist(),
    }


def _shortest_scale(full: int, bound: Callable[[int], int], must_stop: Callable[[], bool]) -> int:
    """The first of `SHORTER_SCALES` with the bound of ``full``, or ``full``."""
    if not must_stop():
        most = bound(full)
        for shorter in SHORTER_SCALES:
            if must_stop() or shorter >= full:
                break
            if bound(shorter) >= most:
                return shorter
    return full


def _tree_part(tree: WindowTree) -> dict[str, Any]:
    return {
        "kind": "window-tree",
        "scale": tree.scale,
        "tables": [_coefficients(table) for table in tree.tables],
        "prices": [
            [[k, tau, y] for (k, tau), y in sorted(prices.items())] for prices in tree.prices
        ],
        "tree": [list(node) if isinstance(node, tuple) else node for node in tree.nodes],
    }


def _coefficients(table: ConfigurationCut) -> list[list[int]]:
    m, r = np.nonzero(table.coefficients)
    entries: list[list[int]] = np.column_stack([m, r, table.coefficients[m, r]]).tolist()
    return entries
