"""Checking a certificate: a schedule and a proof of a lower bound, with no solver in sight.

This module re-implements what it needs from the definitions and imports nothing of the package but
`instances` (for the digest) and its own second half, `hindsight.certificate_search`. All arithmetic
is on integers: numpy's int64 where a Python integer has shown first that nothing can overflow. The
format is described in docs/certificates.md.

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

**State search.** State prices, and a budget that `hindsight.certificate_search` exhausts under
them: the lower bound is one more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from instances import FileFormatError, Instance

from .certificate_search import Prices, TooManyStatesError, count_states

FORMAT = "llm-hindsight/certificate"
VERSION = 1

Ints = npt.NDArray[np.int64]
Row = tuple[int, int, int]

LIMIT = 2**62
"""No sum formed in int64 may reach this."""

LARGEST_TABLE_MEMORY = 1024
"""Largest M for which state tables are read: they are held as (M + 1)^2 arrays."""

LARGEST_EPOCH = 10_000_000
"""Epochs that may carry a price: prices are held as arrays."""


class CertificateError(ValueError):
    """The certificate does not prove what it claims; the message says what is wrong."""


class _SearchFailedError(CertificateError):
    """A search does not end as claimed."""


@dataclass(frozen=True)
class Verdict:
    """What a certificate proves.

    Attributes
    ----------
    lower_bound : proved: no feasible schedule has a smaller total latency.
    upper_bound : total latency of the certificate's schedule, which is feasible.
    kind : of the proof: ``"memory-prices"``, ``"state-prices"``, ``"state-search"``
        or ``"window-tree"``.
    requests : number of requests.
    tables, price_sets, leaves : of the proof; 0 where it has none. Leaves are those of a window
        tree, or the partial schedules of a search.
    digest : of the instance.
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


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON document in a file, with the right format and version; nothing else is checked.

    Raises
    ------
    OSError: the file cannot be read.
    FileFormatError: not JSON, not a certificate, or one of another version.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number)
    except RecursionError as error:
        raise FileFormatError(path, "nested too deeply to be a certificate") from error
    except ValueError as error:  # not UTF-8, not JSON, or a number that is none
        raise FileFormatError(path, f"not valid JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(path, f"is not a certificate: its format is not {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise FileFormatError(path, f"version is {version!r}; this release reads {VERSION}")
    return document


def check_certificate(document: Mapping[str, Any]) -> Verdict:
    """Check a certificate completely.

    Parameters
    ----------
    document : as from `read_certificate`.

    Returns
    -------
    The verdict. Its lower bound is the certificate's claim, which the proof reaches.

    Raises
    ------
    CertificateError: anything is missing, malformed, infeasible or claimed but not proved.
    """
    keys = ("format", "version", "instance", "start_times", "upper_bound", "lower_bound", "proof")
    _keys(document, keys, "certificate")
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise CertificateError("format or version is not that of this checker")
    instance = _instance(document["instance"])
    upper = _total_latency(instance, document["start_times"])
    if _whole(document["upper_bound"], "upper_bound") != upper:
        raise CertificateError(
            f"upper_bound is {document['upper_bound']}, but the schedule's total latency is {upper}"
        )
    claim = _whole(document["lower_bound"], "lower_bound")
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


def proved_bound(document: Mapping[str, Any]) -> int:
    """The lower bound that the instance and proof of a document give, whatever it claims.

    Raises
    ------
    CertificateError: the instance or the proof is malformed.
    """
    return _Proof(_instance(document["instance"]), document["proof"]).bound()


def states_needed(
    document: Mapping[str, Any], should_stop: Callable[[], bool] | None = None
) -> int | None:
    """Partial schedules that the search of a ``"state-search"`` proof keeps.

    None if that is more than its ``kept``, if it was told to stop, or if the search fails.

    Raises
    ------
    CertificateError: the instance or the prices are malformed.
    """
    proof = _Proof(_instance(document["instance"]), document["proof"])
    proof.should_stop = should_stop
    try:
        proof.bound()
    except _SearchFailedError:
        return None
    return proof.leaves


@dataclass(frozen=True)
class _Rows:
    """The instance: (arrival, prompt, output) of each request, and M."""

    rows: list[Row]
    memory_limit: int
    digest: str


def _instance(part: Any) -> _Rows:
    _keys(part, ("memory_limit", "requests", "digest"), "instance")
    limit = _whole(part["memory_limit"], "memory_limit", 1)
    rows = []
    for position, row in enumerate(_list(part["requests"], "requests")):
        where = f"request {position}"
        a, s, o = _wholes(row, 3, where)
        if o < 1:
            raise CertificateError(f"{where}: output_length is below 1")
        if s + o > limit:
            raise CertificateError(f"{where}: prompt and output exceed memory_limit {limit}")
        rows.append((a, s, o))
    if not rows:
        raise CertificateError("there are no requests")
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
        raise CertificateError(f"instance: {error}") from error
    if part["digest"] != digest:
        raise CertificateError("digest does not belong to these requests and this memory_limit")
    return _Rows(rows, limit, digest)


def _total_latency(instance: _Rows, start_times: Any) -> int:
    """Total latency of a schedule that is feasible, round by round."""
    starts = _wholes(start_times, len(instance.rows), "start_times")
    held: dict[int, int] = {}
    total = 0
    for i, ((arrival, prompt, output), start) in enumerate(zip(instance.rows, starts, strict=True)):
        if start < arrival:
            raise CertificateError(f"start_times: request {i} starts before it arrives")
        for r in range(start + 1, start + output + 1):
            held[r] = held.get(r, 0) + prompt + (r - start)
        total += start + output - arrival
    for r, tokens in held.items():
        if tokens > instance.memory_limit:
            raise CertificateError(
                f"start_times: round {r} holds {tokens} of {instance.memory_limit} tokens"
            )
    return total


class _Proof:
    """A proof as read, and the bound it gives."""

    def __init__(self, instance: _Rows, part: Any) -> None:
        self.rows = instance.rows
        self.limit = instance.memory_limit
        self.part = part
        self.kind = str(part.get("kind") if isinstance(part, dict) else None)
        self.tables: list[Ints] = []
        self.price_sets = 0
        self.leaves = 0
        self.weakest = "the proof"
        self.should_stop: Callable[[], bool] | None = None
        names: tuple[str, ...] = ("kind", "scale")
        if self.kind == "memory-prices":
            _keys(part, (*names, "prices"), "proof")
        elif self.kind == "state-prices":
            _keys(part, (*names, "states", "prices"), "proof")
        elif self.kind == "state-search":
            _keys(part, (*names, "states", "prices", "budget", "kept"), "proof")
        elif self.kind == "window-tree":
            _keys(part, (*names, "tables", "prices", "tree"), "proof")
        else:
            raise CertificateError(f"proof: kind {self.kind!r} is unknown")
        self.scale = _whole(part["scale"], "scale", 1)

    def bound(self) -> int:
        """The lower bound that this proof gives."""
        if self.kind == "memory-prices":
            return self._memory_bound()
        if self.limit > LARGEST_TABLE_MEMORY:
            raise CertificateError(f"tables are not read for memory_limit {self.limit}")
        self._order = self._states()
        free: list[Window] = [(a, None) for a, _, _ in self.rows]
        if self.kind == "state-prices":
            return self._state_prices()[0](free)
        if self.kind == "state-search":
            return self._search_bound()
        listed = _list(self.part["tables"], "tables")
        self.tables = [self._table(table, k) for k, table in enumerate(listed)]
        heaviest = [self._heaviest(table) for table in self.tables]
        sets = [
            self._table_prices(prices, f"prices {p}", heaviest)
            for p, prices in enumerate(_list(self.part["prices"], "prices"))
        ]
        self.price_sets = len(sets)
        return self._tree_bound(sets, free)

    def _tree_bound(self, sets: list[_PriceBound], free: list[Window]) -> int:
        """Walk the tree, whose nodes are listed parents first, left before right."""
        nodes = _list(self.part["tree"], "tree")
        pending = [free]
        lowest: int | None = None
        for position, node in enumerate(nodes):
            if not pending:
                raise CertificateError(f"tree: node {position} is left over")
            windows = pending.pop()
            if isinstance(node, list):
                i, t = _wholes(node, 2, f"tree: node {position}")
                if i >= len(windows):
                    raise CertificateError(f"tree: node {position} splits request {i}")
                lo, hi = windows[i]
                if t < lo or (hi is not None and t >= hi):
                    raise CertificateError(
                        f"tree: node {position} splits request {i} after {t}, "
                        f"outside its window [{lo}, {'infinity' if hi is None else hi}]"
                    )
                pending.append([*windows[:i], (t + 1, hi), *windows[i + 1 :]])
                pending.append([*windows[:i], (lo, t), *windows[i + 1 :]])
                continue
            p = _whole(node, f"tree: node {position}")
            if p >= len(sets):
                raise CertificateError(f"tree: node {position} refers to missing prices {p}")
            bound = sets[p](windows)
            self.leaves += 1
            if lowest is None or bound < lowest:
                lowest, self.weakest = bound, f"leaf {self.leaves - 1} (node {position})"
        if pending or lowest is None:
            raise CertificateError(f"tree: {len(pending)} parts are not covered: nodes are missing")
        return lowest

    def _states(self) -> list[tuple[int, int, int]]:
        """(m, r, copies) of every state that occurs, r decreasing."""
        copies: dict[tuple[int, int], int] = {}
        for _, prompt, output in self.rows:
            for age in range(output):
                state = (prompt + age, output - age)
                copies[state] = copies.get(state, 0) + 1
        found = [(m, r, min(c, self.limit // (m + r))) for (m, r), c in copies.items()]
        return sorted(found, key=lambda state: -state[1])

    def _heaviest(self, weights: Ints) -> int:
        """Total weight of the heaviest configuration; see the module docstring."""
        limit = self.limit
        if limit * int(weights.max()) >= LIMIT:
            raise CertificateError("proof: a weight is too large")
        # Every member holds at least m + 1 >= 1 tokens, or 2 where every prompt counts.
        most = limit if any(m == 0 for m, _, _ in self._order) else limit // 2
        value = np.full((most + 1, limit + 1), -1, dtype=np.int64)
        value[0, 0] = 0
        members = np.arange(1, most + 1)[:, None]
        sums = np.arange(limit + 1)[None, :]
        for m, r, copies in self._order:
            weight = int(weights[m, r])
            if weight == 0:
                continue
            top = min(most, limit // r)
            fits = sums[:, m:] + members[:top] * r <= limit
            for _ in range(copies):
                before = value[:top, : limit + 1 - m]
                reached = np.where((before >= 0) & fits, before + weight, -1)
                value[1 : top + 1, m:] = np.maximum(value[1 : top + 1, m:], reached)
        return int(value.max())

    def _table(self, part: Any, k: int) -> Ints:
        """The weights rho of one table, shape (M + 1, M + 1)."""
        weights = np.zeros((self.limit + 1, self.limit + 1), dtype=np.int64)
        for entry in _list(part, f"table {k}"):
            m, r, weight = _wholes(entry, 3, f"table {k}")
            if r < 1 or m + r > self.limit:
                raise CertificateError(f"table {k}: ({m}, {r}) is no state")
            if weights[m, r]:
                raise CertificateError(f"table {k}: state ({m}, {r}) is given twice")
            if weight * self.limit >= LIMIT:
                raise CertificateError(f"table {k}: weight {weight} is too large")
            weights[m, r] = weight
        return weights

    def _search_bound(self) -> int:
        """One more than the budget that the search exhausts."""
        budget = _whole(self.part["budget"], "budget")
        kept = _whole(self.part["kept"], "kept")
        _, prices = self._state_prices()
        try:
            found = count_states(self.rows, self.limit, prices, budget, kept, self.should_stop)
        except TooManyStatesError as error:
            raise _SearchFailedError(
                f"kept: the search for budget {budget} needs more than {kept} states"
            ) from error
        if found is None:
            raise _SearchFailedError(f"budget: there is a schedule within {budget}")
        self.leaves = found
        return budget + 1

    def _state_prices(self) -> tuple[_PriceBound, Prices]:
        """The bound of prices of every state at every epoch, and what a search needs of them."""
        where = "prices"
        position = np.full((self.limit + 1, self.limit + 1), -1, dtype=np.int64)
        states = [_wholes(state, 2, "states") for state in _list(self.part["states"], "states")]
        occurring = {(m, r) for m, r, _ in self._order}
        for p, (m, r) in enumerate(states):
            if (m, r) not in occurring or position[m, r] >= 0:
                raise CertificateError(f"states: ({m}, {r}) does not occur or is given twice")
            position[m, r] = p
        rows = [_wholes(row, len(states), where) for row in _list(self.part["prices"], where)]
        T = len(rows)
        if T * (len(states) + 1) > LARGEST_EPOCH:
            raise CertificateError(f"{where}: too many")
        tops = [max(row, default=0) for row in rows]
        self._refuse_overflow(sum(tops), T, where)
        # One column more, of zeros, for states without a price.
        Q = np.zeros((T, len(states) + 1), dtype=np.int64)
        capacities = [0] * T
        for tau, row in enumerate(rows):
            Q[tau, : len(states)] = row
            if tops[tau]:
                capacities[tau] = self._heaviest(np.where(position >= 0, Q[tau][position], 0))
        self.price_sets = 1
        costs: dict[tuple[int, int], Ints] = {}
        for _, s, o in self.rows:
            total = np.zeros(T + 1, dtype=np.int64)
            for age in range(min(o, T)):
                total[: T - age] += Q[age:, position[s + age, o - age]]
            costs[s, o] = total
        where_is = {(m, r): p for p, (m, r) in enumerate(states)}

        def paid(tau: int, m: int, r: int) -> int:
            p = where_is.get((m, r))
            return 0 if p is None else rows[tau][p]

        starts = np.arange(T + 1, dtype=np.int64)
        priced = [(costs[s, o] + self.scale * (starts + (o - a))).tolist() for a, s, o in self.rows]
        bound = _PriceBound(self.rows, costs, self.scale, T, sum(capacities))
        return bound, Prices(self.scale, capacities, priced, paid)

    def _table_prices(self, part: Any, where: str, heaviest: Sequence[int]) -> _PriceBound:
        """The bound of prices of tables."""
        entries: dict[tuple[int, int], int] = {}
        for entry in _list(part, where):
            k, tau, y = _wholes(entry, 3, where)
            if k >= len(self.tables):
                raise CertificateError(f"{where}: table {k} does not exist")
            if tau >= LARGEST_EPOCH:
                raise CertificateError(f"{where}: epoch {tau} is too late")
            if (k, tau) in entries:
                raise CertificateError(f"{where}: table {k} has two prices at epoch {tau}")
            entries[k, tau] = y
        T = 1 + max((tau for _, tau in entries), default=-1)
        # No weight exceeds its table's heaviest configuration, if its state occurs.
        paid = sum(y * heaviest[k] for (k, _), y in entries.items())
        self._refuse_overflow(paid, T, where)
        prices: dict[int, Ints] = {}
        for (k, tau), y in entries.items():
            prices.setdefault(k, np.zeros(T, dtype=np.int64))[tau] = y
        costs: dict[tuple[int, int], Ints] = {}
        for _, s, o in self.rows:
            if (s, o) in costs:
                continue
            total = np.zeros(T + 1, dtype=np.int64)
            age = np.arange(o)
            for k, column in prices.items():
                weights = self.tables[k][s + age, o - age]
                padded = np.concatenate([column, np.zeros(o, dtype=np.int64)])
                total += np.correlate(padded, weights, "valid")
            costs[s, o] = total
        return _PriceBound(self.rows, costs, self.scale, T, paid)

    def _memory_bound(self) -> int:
        """Prices of a token in rounds 1, 2, ...: the one table rho = m + 1."""
        where = "prices"
        numerators = [_whole(y, where) for y in _list(self.part["prices"], where)]
        T = len(numerators)
        if T > LARGEST_EPOCH:
            raise CertificateError(f"{where}: more than {LARGEST_EPOCH} rounds")
        longest = max(o for _, _, o in self.rows)
        largest = max(s for _, s, _ in self.rows)
        # Prefix sums of y and of tau y, times s + 1 and 1; a start is at most T.
        self._refuse_overflow(sum(numerators) * 4 * (largest + T + longest + 1), T, where)
        self.price_sets = 1
        y = np.array(numerators, dtype=np.int64)
        epochs = np.arange(T, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * epochs)])
        costs: dict[tuple[int, int], Ints] = {}
        t = np.arange(T + 1, dtype=np.int64)
        total = 0
        for a, s, o in self.rows:
            if (s, o) not in costs:
                # sum over tau = t .. t + o - 1 of y[tau] (s + 1 + tau - t)
                end = np.minimum(t + o, T)
                costs[s, o] = (s + 1 - t) * (plain[end] - plain) + tilted[end] - tilted
            bound = _PriceBound([(a, s, o)], costs, self.scale, T, 0)
            total += bound.minimum(0, (a, None))
            if len(costs) * (T + 1) > LARGEST_EPOCH:
                costs.clear()
        return -(-(total - self.limit * sum(numerators)) // self.scale)

    def _refuse_overflow(self, charged: int, T: int, where: str) -> None:
        latest = T + max(a + o for a, _, o in self.rows)
        if charged + self.scale * latest >= LIMIT:
            raise CertificateError(f"{where}: the prices or the scale are too large")


Window = tuple[int, int | None]
"""First and last start, None for no last one."""


class _PriceBound:
    """From windows to the bound that one set of prices proves on schedules within them."""

    def __init__(
        self, rows: list[Row], costs: dict[tuple[int, int], Ints], scale: int, T: int, paid: int
    ) -> None:
        self.rows = rows
        self.costs = costs
        self.scale = scale
        self.T = T
        self.paid = paid

    def minimum(self, i: int, window: Window) -> int:
        """The least P_i over a window, which is not empty."""
        a, s, o = self.rows[i]
        lo, hi = window
        last = self.T if hi is None else min(hi, self.T)
        if lo > last:  # past every price: P_i grows by scale a round
            return self.scale * (lo + o - a)
        starts = np.arange(lo, last + 1, dtype=np.int64)
        priced = self.scale * (starts + (o - a)) + self.costs[s, o][lo : last + 1]
        return int(priced.min())

    def __call__(self, windows: list[Window]) -> int:
        total = sum(self.minimum(i, window) for i, window in enumerate(windows))
        return -(-(total - self.paid) // self.scale)


def _keys(part: Any, names: Sequence[str], where: str) -> None:
    if not isinstance(part, Mapping):
        raise CertificateError(f"{where} is not a JSON object")
    for name in names:
        if name not in part:
            raise CertificateError(f"{where}: {name!r} is missing")
    for name in part:
        if name not in names:
            raise CertificateError(f"{where}: unknown key {name!r}")


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise CertificateError(f"{where} is not a list")
    return value


def _whole(value: Any, where: str, minimum: int = 0) -> int:
    """An integer >= minimum; true and 1.0 are none."""
    if type(value) is not int:
        raise CertificateError(f"{where}: {value!r} is not a whole number")
    if value < minimum:
        raise CertificateError(f"{where}: {value} is below {minimum}")
    return value


def _wholes(value: Any, count: int, where: str) -> list[int]:
    """That many integers >= 0."""
    if len(_list(value, where)) != count:
        raise CertificateError(f"{where}: {len(value)} entries, not {count}")
    return [_whole(entry, where) for entry in value]


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")
