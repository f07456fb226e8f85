"""Checking a certificate: a schedule and a proof of a lower bound, with no solver in sight.

This module re-implements what it needs from the definitions and imports nothing of the package but
`instances` (for the digest) and its own second half, `hindsight.certificates.replay`. All
arithmetic is on integers: numpy's int64 where a Python integer has shown first that nothing can
overflow. The format is described in docs/certificates.md.

**Notation.** Request i = (a, s, o) started at t is, at epoch tau = t + age for age = 0 .. o - 1, in
*state* (m, r) = (s + age, o - age): it holds m + 1 tokens in round tau + 1 and still runs in the r
rounds tau + 1 .. tau + r. A *configuration* is a multiset of states that can occur together.

**What can occur together.** Read the states of one epoch in order of decreasing r. When the k-th is
read, the first k all run in round tau + r, where together they hold (sum of their m) + k r <= M.
So a multiset of states is admitted only if, read in that order, each member keeps
S + k r <= M, with k the members read and S the sum of their m. The heaviest total weight over
admitted multisets follows from a dynamic program over (k, S), in which a state is read at most as
often as there are requests that pass through it: `_heaviest`. Schedules realise admitted multisets
only, so the maximum is an upper bound on what any schedule can have together, which is all that is
used.

**Price bound.** Let Q(tau, m, r) >= 0 be prices in units of 1 / scale, and W_tau at least the
heaviest configuration under Q(tau, .). For any feasible schedule

    scale * TEL = sum_i P_i(t_i) - sum_tau (total price of what is active at tau)
               >= sum_i P_i(t_i) - sum_tau W_tau,

    P_i(t) = scale (t + o_i - a_i) + sum_age Q(t + age, s_i + age, o_i - age).

If the starts are known to lie in windows, lo_i <= t_i <= hi_i, each P_i(t_i) is at least its
minimum over the window: the bound on schedules within the windows. Past the last price P_i only
grows, by scale a round, so windows without an end need no horizon. TEL is an integer: bounds are
rounded up. *State prices* give Q itself, and W_tau by the dynamic program. *Tables* are weights
rho_k(m, r) >= 0 with prices y[k, tau] >= 0: Q(tau, .) = sum_k y[k, tau] rho_k and
W_tau = sum_k y[k, tau] D_k, where D_k, the heaviest configuration of table k, is computed here and
never read.

**Memory prices.** The same with one table, rho = m + 1, and M for its D: no more than M tokens are
held in round tau + 1. The sums are taken over prefixes, so large instances are no trouble.

**Window tree.** The root has the windows [a_i, infinity). A split (i, t) divides a node's window
[lo_i, hi_i], lo_i <= t < hi_i, into [lo_i, t] and [t + 1, hi_i]. Every schedule lies in exactly one
leaf, whichever the splits are; so the smallest of the leaves' bounds is a lower bound on the
optimum.

**State search.** State prices, and a budget that `hindsight.certificates.replay` exhausts under
them: the lower bound is one more.

**What a file can cost.** Whoever wrote the file may be hostile. Memory grows with the file and not
with the numbers in it: a schedule is checked at its completions, prices are held near the epochs
that have one, and what grows with M ends at `LARGEST_TABLE_MEMORY`. Time is counted in numbers
visited, before they are, and ends at `LARGEST_WORK`. A claim that was checked and does not hold is
a `CertificateError`; a document that is malformed, or more than that, is one of its subclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instances import Instance

from .format import (
    FORMAT,
    LIMIT,
    VERSION,
    CertificateError,
    CertificateTooLargeError,
    MalformedCertificateError,
    keys_of,
    list_of,
    shown,
    whole,
    wholes,
)
from .replay import Prices, SearchTooLargeError, TooManyStatesError, count_states

Ints = npt.NDArray[np.int64]
Row = tuple[int, int, int]

LARGEST_TABLE_MEMORY = 1024
"""Largest M for which states are priced: some arrays are of (M + 1)^2."""

LARGEST_EPOCH = 10_000_000
"""Epochs that may carry a price, and prices of states in all."""

LARGEST_AXIS = 4_000_000
"""Starts at which a set of prices may charge a request, and entries kept of all sets together."""

LARGEST_WORK = 20_000_000_000
"""Numbers visited in a check, some minutes."""

BLOCK = 1024
"""Starts tried at once; further blocks double."""

CALL = 2_000
"""Numbers visited in the time that a few calls of numpy take by themselves."""


NO_WEIGHTS = (np.zeros(0, dtype=np.int64),) * 2


class _SearchFailedError(CertificateError):
    """A search does not end as claimed."""


@dataclass(frozen=True)
class Verdict:
    """What a certificate proves.

    Attributes
    ----------
    lower_bound : int
        Verified: no feasible schedule has a smaller total latency.
    upper_bound : int
        Total latency of the certificate's schedule, which is feasible.
    kind : str
        Of the proof: ``"memory-prices"``, ``"state-prices"``, ``"state-search"`` or
        ``"window-tree"``.
    requests : int
        Number of requests.
    tables, price_sets, leaves : int
        Of the proof; 0 where it has none. Leaves are those of a window tree, or the partial
        schedules of a search.
    digest : str
        Of the instance.
    """

    lower_bound: int
    upper_bound: int
    kind: str
    requests: int
    tables: int
    price_sets: int
    leaves: int
    digest: str

    @property
    def is_optimal(self) -> bool:
        """Whether the bounds meet: the schedule is an optimum."""
        return self.lower_bound == self.upper_bound


def check_certificate(document: Mapping[str, Any]) -> Verdict:
    """Check a certificate completely.

    Parameters
    ----------
    document : Mapping[str, Any]
        As from `read_certificate`.

    Returns
    -------
    Verdict
        The verdict. Its lower bound is the certificate's claim, which the proof reaches.

    Raises
    ------
    CertificateError
        The schedule is infeasible, or something is claimed but not proved.
    MalformedCertificateError
        Anything is missing or malformed.
    CertificateTooLargeError
        To check it takes more than this checker does.
    """
    keys = ("format", "version", "instance", "start_times", "upper_bound", "lower_bound", "proof")
    keys_of(document, keys, "certificate")
    if document["format"] != FORMAT or whole(document["version"], "version") != VERSION:
        raise MalformedCertificateError("format or version is not that of this checker")
    instance = _instance(document["instance"])
    upper = _total_latency(instance, document["start_times"])
    if whole(document["upper_bound"], "upper_bound") != upper:
        raise CertificateError(
            f"upper_bound is {document['upper_bound']}, but the schedule's total latency is {upper}"
        )
    claim = whole(document["lower_bound"], "lower_bound")
    proof = _Proof(instance, document["proof"])
    proved = proof.bound()
    if proved < claim:
        raise CertificateError(
            f"lower_bound is {claim}, but {proof.weakest} proves no more than {proved}"
        )
    if claim > upper:
        raise CertificateError(f"lower_bound {claim} exceeds the feasible schedule's {upper}")
    return Verdict(
        claim,
        upper,
        proof.kind,
        len(instance.rows),
        len(proof.tables),
        proof.price_sets,
        proof.leaves,
        instance.digest,
    )


def proved_bound(document: Mapping[str, Any], should_stop: Callable[[], bool] | None = None) -> int:
    """The lower bound that the instance and proof of a document give, whatever it claims.

    ``should_stop`` is polled; a proof that it breaks off counts as too large.

    Raises
    ------
    CertificateError
        The instance or the proof is malformed, incomplete or too large.
    """
    proof = _Proof(_instance(document["instance"]), document["proof"])
    proof.should_stop = should_stop
    return proof.bound()


def states_needed(
    document: Mapping[str, Any], should_stop: Callable[[], bool] | None = None
) -> int | None:
    """Partial schedules that the search of a ``"state-search"`` proof keeps.

    None if that is more than its ``kept`` or than this checker does, if it was told to stop, or if
    the search fails.

    Raises
    ------
    CertificateError
        The instance or the prices are malformed.
    """
    proof = _Proof(_instance(document["instance"]), document["proof"])
    proof.should_stop = should_stop
    try:
        proof.bound()
    except (_SearchFailedError, CertificateTooLargeError):
        return None
    return proof.leaves


@dataclass(frozen=True)
class _Rows:
    """The instance: (arrival, prompt, output) of each request, and M."""

    rows: list[Row]
    memory_limit: int
    digest: str


def _instance(part: Any) -> _Rows:
    keys_of(part, ("memory_limit", "requests", "digest"), "instance")
    limit = whole(part["memory_limit"], "memory_limit", 1)
    rows = []
    for position, row in enumerate(list_of(part["requests"], "requests")):
        where = f"request {position}"
        a, s, o = wholes(row, 3, where)
        if o < 1:
            raise MalformedCertificateError(f"{where}: output_length is below 1")
        if s + o > limit:
            raise MalformedCertificateError(
                f"{where}: prompt and output exceed memory_limit {limit}"
            )
        rows.append((a, s, o))
    if not rows:
        raise MalformedCertificateError("there are no requests")
    try:
        columns = [list(column) for column in zip(*rows, strict=True)]
        digest = Instance.from_arrays(
            columns[1],
            columns[2],
            columns[0],
            memory_limit=limit,
            metadata={"allow_zero_prompt_length": True},
        ).digest
    except (ValueError, TypeError) as error:
        raise MalformedCertificateError(f"instance: {error}") from error
    if type(part["digest"]) is not str:
        raise MalformedCertificateError(f"digest: {shown(part['digest'])} is not a text")
    if part["digest"] != digest:
        raise CertificateError("digest does not belong to these requests and this memory_limit")
    return _Rows(rows, limit, digest)


def _total_latency(instance: _Rows, start_times: Any) -> int:
    """Total latency of a schedule that is feasible.

    Memory only grows until a request completes: it is enough to look at the last round of each.
    """
    rows = instance.rows
    starts = wholes(start_times, len(rows), "start_times")
    for i, ((arrival, _, _), start) in enumerate(zip(rows, starts, strict=True)):
        if start < arrival:
            raise CertificateError(f"start_times: request {i} starts before it arrives")
    ends = [start + output for (_, _, output), start in zip(rows, starts, strict=True)]
    waiting = sorted(range(len(rows)), key=lambda i: starts[i], reverse=True)
    running = offset = 0  # in round r they hold offset + running * r
    for i in sorted(range(len(rows)), key=lambda i: ends[i]):
        last = ends[i]
        while waiting and starts[waiting[-1]] < last:
            j = waiting.pop()
            running += 1
            offset += rows[j][1] - starts[j]
        tokens = offset + running * last
        if tokens > instance.memory_limit:
            raise CertificateError(
                f"start_times: round {last} holds {tokens} of {instance.memory_limit} tokens"
            )
        running -= 1
        offset -= rows[i][1] - starts[i]
    return sum(ends) - sum(arrival for arrival, _, _ in rows)


Window = tuple[int, int | None]
"""First and last start, None for no last one."""


class _Axis:
    """The starts that a set of prices may charge, increasing; no other start pays anything."""

    def __init__(self, starts: Ints) -> None:
        self.starts = starts
        ends = np.flatnonzero(np.diff(starts, append=-1) != 1)
        run = np.searchsorted(ends, np.arange(len(starts)))
        self.free = starts[ends][run] + 1  # the first start after each that pays nothing

    def least(self, paid: Ints, scale: int, latency: int, window: Window) -> int:
        """The least scale (t + latency) + paid(t) over a window, which is not empty."""
        low, high = window
        first = int(np.searchsorted(self.starts, low))
        end = len(self.starts)
        if high is not None:
            end = int(np.searchsorted(self.starts, high, side="right"))
        free = low
        if first < len(self.starts) and self.starts[first] == low:
            free = int(self.free[first])
        costs = []
        if high is None or free <= high:  # of the starts that pay nothing the first is the cheapest
            costs.append(scale * (free + latency))
        if first < end:
            charged = scale * (self.starts[first:end] + latency) + paid[first:end]
            costs.append(int(charged.min()))
        return min(costs)


class _Table(NamedTuple):
    """Weights rho of states, and their heaviest configuration.

    Columns (m, rho) of increasing m, by m + r.
    """

    weights: dict[int, tuple[Ints, Ints]]
    heaviest: int


class _PriceSet(NamedTuple):
    """Prices of tables as rows (table, epoch, y), and what they pay for the configurations."""

    entries: Ints
    paid: int


class _Proof:
    """A proof as read, and the bound it gives."""

    def __init__(self, instance: _Rows, part: Any) -> None:
        self.rows = instance.rows
        self.limit = instance.memory_limit
        self.part = part
        self.tables: list[_Table] = []
        self.price_sets = 0
        self.leaves = 0
        self.weakest = "the proof"
        self.should_stop: Callable[[], bool] | None = None
        self._work = 0
        kind = part.get("kind") if isinstance(part, Mapping) else None
        names: tuple[str, ...] = ("kind", "scale")
        if kind == "memory-prices":
            keys_of(part, (*names, "prices"), "proof")
        elif kind == "state-prices":
            keys_of(part, (*names, "states", "prices"), "proof")
        elif kind == "state-search":
            keys_of(part, (*names, "states", "prices", "budget", "kept"), "proof")
        elif kind == "window-tree":
            keys_of(part, (*names, "tables", "prices", "tree"), "proof")
        else:
            raise MalformedCertificateError(f"proof: kind {shown(kind)} is unknown")
        self.kind: str = kind
        self.scale = whole(part["scale"], "scale", 1)

    def bound(self) -> int:
        """The lower bound that this proof gives."""
        if self.kind == "memory-prices":
            return self._memory_bound()
        if self.limit > LARGEST_TABLE_MEMORY:
            raise CertificateTooLargeError(f"states are not priced for memory_limit {self.limit}")
        self._count_requests()
        if self.kind == "state-prices":
            return self._state_bound()
        if self.kind == "state-search":
            return self._search_bound()
        listed = list_of(self.part["tables"], "tables")
        self.tables = [self._table(table, f"table {k}") for k, table in enumerate(listed)]
        listed = list_of(self.part["prices"], "prices")
        sets = [self._price_set(prices, f"prices {p}") for p, prices in enumerate(listed)]
        self.price_sets = len(sets)
        return self._tree_bound(sets)

    def _spend(self, numbers: int) -> None:
        """Count numbers that are about to be visited."""
        self._work += numbers
        stopped = self.should_stop is not None and self.should_stop()
        if stopped or self._work > LARGEST_WORK:
            raise CertificateTooLargeError("proof: to check it takes more than this checker does")

    def _rounded_up(self, scaled: int) -> int:
        """A bound in units of 1 / scale, as one on a total latency."""
        return -(-scaled // self.scale)

    def _refuse_overflow(self, charged: int, T: int, where: str) -> None:
        """Refuse prices of epochs below T that charge too much for int64."""
        latest = T + max(a + o for a, _, o in self.rows)
        if charged + self.scale * latest >= LIMIT:
            raise CertificateTooLargeError(f"{where}: the prices or the scale are too large")

    def _count_requests(self) -> None:
        """``self._passing[e, m]``: of the requests with s + o = e, how many have s <= m."""
        counts = np.zeros((self.limit + 1, self.limit + 1), dtype=np.int64)
        for _, s, o in self.rows:
            counts[s + o, s] += 1
        self._passing = np.cumsum(counts, axis=1)
        # Every member of a configuration holds at least m + 1 tokens.
        self._most = self.limit // (1 + min(s for _, s, _ in self.rows))

    def _heaviest(self, weights: Iterable[Row]) -> int:
        """Total weight of the heaviest configuration, of rows (m, r, weight); see the docstring."""
        limit, most = self.limit, self._most
        ordered = sorted((row for row in weights if row[2]), key=lambda row: -row[1])
        self._spend(CALL + (most + 1) * (limit + 1))
        if limit * max((weight for _, _, weight in ordered), default=0) >= LIMIT:
            raise CertificateTooLargeError("proof: a weight is too large")
        value = np.full((most + 1, limit + 1), -1, dtype=np.int64)
        value[0, 0] = 0
        members = np.arange(most + 1)[:, None]
        sums = np.arange(limit + 1)[None, :]
        for m, r, weight in ordered:
            top = min(most, limit // r)
            copies = min(int(self._passing[m + r, m]), limit // (m + r))
            together = 1
            while copies:
                # Members in one state fit if they do when the last of them is read; 1, 2, 4, ...
                # and what is left of them at once give any number.
                k = min(together, copies)
                self._spend(CALL + (top + 1) * (limit + 1))
                before = value[: top + 1 - k, : limit + 1 - k * m]
                after = value[k : top + 1, k * m :]
                fits = sums[:, k * m :] + members[k : top + 1] * r <= limit
                reached = np.where((before >= 0) & fits, before + k * weight, -1)
                np.maximum(after, reached, out=after)
                copies -= k
                together *= 2
        return int(value.max())

    def _table(self, part: Any, where: str) -> _Table:
        rows: dict[tuple[int, int], int] = {}
        for entry in list_of(part, where):
            m, r, weight = wholes(entry, 3, where)
            if r < 1 or m + r > self.limit:
                raise MalformedCertificateError(f"{where}: ({m}, {r}) is no state")
            if (m, r) in rows:
                raise MalformedCertificateError(f"{where}: state ({m}, {r}) is given twice")
            rows[m, r] = weight
        heaviest = self._heaviest((m, r, weight) for (m, r), weight in rows.items())
        by_sum: dict[int, list[tuple[int, int]]] = {}
        for (m, r), weight in sorted(rows.items()):
            by_sum.setdefault(m + r, []).append((m, weight))
        weights = {e: np.array(column, dtype=np.int64).T for e, column in by_sum.items()}
        return _Table({e: (m, rho) for e, (m, rho) in weights.items()}, heaviest)

    def _price_set(self, part: Any, where: str) -> _PriceSet:
        entries = [wholes(entry, 3, where) for entry in list_of(part, where)]
        seen: set[tuple[int, int]] = set()
        for k, tau, _ in entries:
            if k >= len(self.tables):
                raise MalformedCertificateError(f"{where}: table {k} does not exist")
            if tau >= LARGEST_EPOCH:
                raise CertificateTooLargeError(f"{where}: epoch {tau} is too late")
            if (k, tau) in seen:
                raise MalformedCertificateError(f"{where}: table {k} has two prices at epoch {tau}")
            seen.add((k, tau))
        # No weight exceeds its table's heaviest configuration, if its state occurs.
        paid = sum(y * self.tables[k].heaviest for k, _, y in entries)
        self._refuse_overflow(paid, 1 + max((tau for _, tau in seen), default=-1), where)
        return _PriceSet(np.array(entries, dtype=np.int64).reshape(-1, 3), paid)

    def _tree_bound(self, sets: list[_PriceSet]) -> int:
        """Walk the tree, whose nodes are listed parents first, left before right."""
        windows: list[Window] = [(a, None) for a, _, _ in self.rows]
        replaced: list[tuple[int, Window]] = []
        # The parts to come: how many replacements hold there, and the next one.
        pending = [(0, 0, windows[0])]
        charges = _TableCharges(self.rows, self.tables, sets, self._spend)
        lowest: int | None = None
        for position, node in enumerate(list_of(self.part["tree"], "tree")):
            if not pending:
                raise CertificateError(f"tree: node {position} is left over")
            depth, i, window = pending.pop()
            while len(replaced) > depth:
                j, before = replaced.pop()
                windows[j] = before
            replaced.append((i, windows[i]))
            windows[i] = window
            if isinstance(node, list):
                i, t = wholes(node, 2, f"tree: node {position}")
                if i >= len(windows):
                    raise MalformedCertificateError(f"tree: node {position} splits request {i}")
                lo, hi = windows[i]
                if t < lo or (hi is not None and t >= hi):
                    raise CertificateError(
                        f"tree: node {position} splits request {i} after {t}, "
                        f"outside its window [{lo}, {'infinity' if hi is None else hi}]"
                    )
                pending.append((len(replaced), i, (t + 1, hi)))
                pending.append((len(replaced), i, (lo, t)))
                continue
            p = whole(node, f"tree: node {position}")
            if p >= len(sets):
                raise MalformedCertificateError(
                    f"tree: node {position} refers to missing prices {p}"
                )
            total = -sets[p].paid
            for (a, s, o), window in zip(self.rows, windows, strict=True):
                axis, paid = charges.of(p, s, o)
                total += axis.least(paid, self.scale, o - a, window)
            bound = self._rounded_up(total)
            self.leaves += 1
            if lowest is None or bound < lowest:
                lowest, self.weakest = bound, f"leaf {self.leaves - 1} (node {position})"
        if pending or lowest is None:
            raise CertificateError(f"tree: {len(pending)} parts are not covered: nodes are missing")
        return lowest

    def _state_prices(self) -> _StateCharges:
        """Prices of every state at every epoch."""
        where = "prices"
        states: dict[tuple[int, int], int] = {}
        for state in list_of(self.part["states"], "states"):
            m, r = wholes(state, 2, "states")
            occurs = r >= 1 and m + r <= self.limit and self._passing[m + r, m] > 0
            if not occurs or (m, r) in states:
                raise MalformedCertificateError(
                    f"states: ({m}, {r}) does not occur or is given twice"
                )
            states[m, r] = len(states)
        rows = [wholes(row, len(states), where) for row in list_of(self.part["prices"], where)]
        if len(rows) * (len(states) + 1) > LARGEST_EPOCH:
            raise CertificateTooLargeError(f"{where}: too many")
        self._refuse_overflow(sum(max(row, default=0) for row in rows), len(rows), where)
        self.price_sets = 1
        return _StateCharges(states, rows, self._spend)

    def _capacities(self, charges: _StateCharges) -> list[int]:
        """The heaviest configuration of every epoch."""
        return [
            self._heaviest((m, r, row[p]) for (m, r), p in charges.states.items())
            if any(row)
            else 0
            for row in charges.rows
        ]

    def _state_bound(self) -> int:
        charges = self._state_prices()
        total = -sum(self._capacities(charges))
        for (s, o), alike in groupby(sorted(self.rows, key=_lengths), key=_lengths):
            paid = charges.of(s, o)
            for a, _, _ in alike:
                self._spend(CALL + len(paid))
                total += charges.axis.least(paid, self.scale, o - a, (a, None))
        return self._rounded_up(total)

    def _search_bound(self) -> int:
        """One more than the budget that the search exhausts."""
        budget = whole(self.part["budget"], "budget")
        kept = whole(self.part["kept"], "kept")
        charges = self._state_prices()
        T = len(charges.rows)
        if len(self.rows) * T > LARGEST_EPOCH:
            raise CertificateTooLargeError("prices: too many for a search")
        starts = np.arange(T + 1, dtype=np.int64)
        costs = [
            np.append(charges.of(s, o), 0) + self.scale * (starts + (o - a))
            for a, s, o in self.rows
        ]
        prices = Prices(self.scale, self._capacities(charges), costs, charges.paid)
        try:
            found = count_states(self.rows, self.limit, prices, budget, kept, self.should_stop)
        except TooManyStatesError as error:
            raise _SearchFailedError(
                f"kept: the search for budget {budget} needs more than {kept} states"
            ) from error
        except SearchTooLargeError as error:
            raise CertificateTooLargeError(
                "proof: the search takes more than this checker does"
            ) from error
        if found is None:
            raise _SearchFailedError(f"budget: there is a schedule within {budget}")
        self.leaves = found
        return budget + 1

    def _memory_bound(self) -> int:
        """Prices of a token in rounds 1, 2, ...: the one table rho = m + 1."""
        where = "prices"
        numerators = [whole(y, where) for y in list_of(self.part["prices"], where)]
        T = len(numerators)
        if T > LARGEST_EPOCH:
            raise CertificateTooLargeError(f"{where}: more than {LARGEST_EPOCH} rounds")
        largest = max(s for _, s, _ in self.rows)
        # Prefix sums of y times |s + 1 - t|, and of y tau; t and tau are at most T.
        self._refuse_overflow(sum(numerators) * (largest + 1 + 2 * T), T, where)
        self.price_sets = 1
        y = np.array(numerators, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * np.arange(T, dtype=np.int64))])
        total = -self.limit * sum(numerators)
        for a, s, o in self.rows:
            # A start costs its latency or more: once that is the least cost, none is left to try.
            first, length = a, BLOCK
            least = self.scale * (max(a, T) + o - a)  # the first start past the prices
            while first < T and self.scale * (first + o - a) < least:
                self._spend(CALL + length)
                t = np.arange(first, min(first + length, T), dtype=np.int64)
                end = np.minimum(t + o, T)
                # sum over tau = t .. t + o - 1 of y[tau] (s + 1 + tau - t)
                paid = (s + 1 - t) * (plain[end] - plain[t]) + tilted[end] - tilted[t]
                least = min(least, int((self.scale * (t + (o - a)) + paid).min()))
                first, length = first + length, 2 * length
            total += least
        return self._rounded_up(total)


def _lengths(row: Row) -> tuple[int, int]:
    return row[1:]


class _StateCharges:
    """Prices of states by epoch, as read, and what requests pay."""

    def __init__(
        self,
        states: dict[tuple[int, int], int],
        rows: list[list[int]],
        spend: Callable[[int], None],
    ) -> None:
        self.states = states
        self.rows = rows
        self.axis = _Axis(np.arange(len(rows), dtype=np.int64))
        self._spend = spend
        self._prices = np.array(rows, dtype=np.int64).reshape(len(rows), len(states))

    def paid(self, tau: int, m: int, r: int) -> int:
        """Q(tau, m, r) for an epoch that has prices."""
        p = self.states.get((m, r))
        return 0 if p is None else self.rows[tau][p]

    def of(self, s: int, o: int) -> Ints:
        """What a request of these lengths pays, by start, shape (T,)."""
        T = len(self.rows)
        total = np.zeros(T, dtype=np.int64)
        for age in range(min(o, T)):
            p = self.states.get((s + age, o - age))
            if p is not None:
                self._spend(CALL + T)
                total[: T - age] += self._prices[age:, p]
        return total


class _TableCharges:
    """What requests pay under sets of prices of tables; what was asked last is kept."""

    def __init__(
        self,
        rows: list[Row],
        tables: list[_Table],
        sets: list[_PriceSet],
        spend: Callable[[int], None],
    ) -> None:
        self._longest = max(o for _, _, o in rows)
        self._tables = tables
        self._sets = sets
        self._spend = spend
        self._axes: dict[int, _Axis] = {}
        self._paid: dict[tuple[int, int, int], Ints] = {}
        self._kept = 0

    def of(self, p: int, s: int, o: int) -> tuple[_Axis, Ints]:
        """Under set p: the starts that may pay, and what a request of these lengths does there."""
        if self._kept > LARGEST_AXIS:
            self._kept = 0
            self._axes.clear()
            self._paid.clear()
        if p not in self._axes:
            self._axes[p] = self._axis(p)
        axis = self._axes[p]
        if (p, s, o) not in self._paid:
            self._paid[p, s, o] = self._charge(p, s, o, axis)
            self._kept += CALL + 2 * len(axis.starts)
        self._spend(CALL + len(axis.starts))
        return axis, self._paid[p, s, o]

    def _axis(self, p: int) -> _Axis:
        """Of every priced epoch, the last starts as many as the longest request has rounds."""
        epochs = np.array(sorted(set(self._sets[p].entries[:, 1].tolist())), dtype=np.int64)
        widths = np.minimum(np.diff(epochs, prepend=-1), self._longest)
        length = int(widths.sum())
        if length > LARGEST_AXIS:
            raise CertificateTooLargeError(f"prices {p}: too many")
        behind = np.repeat(epochs - np.cumsum(widths) + 1, widths)
        return _Axis(behind + np.arange(length, dtype=np.int64))

    def _charge(self, p: int, s: int, o: int, axis: _Axis) -> Ints:
        """Two epochs that one request can pay at are as far apart on the axis as they are."""
        entries = self._sets[p].entries
        total = np.zeros(len(axis.starts), dtype=np.int64)
        for k in sorted(set(entries[:, 0].tolist())):
            m, rho = self._tables[k].weights.get(s + o, NO_WEIGHTS)
            ages = m - s
            if not len(ages) or ages[-1] < 0:
                continue
            self._spend(CALL + len(entries) + len(total) * (1 + o // 8))
            weights = np.zeros(o, dtype=np.int64)
            weights[ages[ages >= 0]] = rho[ages >= 0]
            priced = entries[entries[:, 0] == k]
            column = np.zeros(len(total) + o, dtype=np.int64)
            column[np.searchsorted(axis.starts, priced[:, 1])] = priced[:, 2]
            total += np.correlate(column, weights, "valid")[:-1]
        return total
