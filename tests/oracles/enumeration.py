"""Optima of tiny problems on every axis, by one enumeration; it shares no code with the packages.

A *problem* has a clock, a memory limit and rule, replicas and a preemption rule, and each of its
requests an arrival time, lengths, a weight and a service level. A *goal* is the least sum of
weight times latency, the least makespan, the fewest late requests, or a quantile of latencies or
of times to first token. All numbers are exact: integers and fractions.

Model (docs/model.md and docs/continuous-time.md). A round processes tokens of some requests that
have arrived. It lasts 1 on the clock of rounds, where a request always processes its prompt whole,
and ``seconds(works)`` otherwise, where prompts may be split into chunks. The round that processes
the last token of the prompt emits the first output token, and each later round of the request emits
one more. What a request stores in a round counts in whole blocks, and all blocks of a round fit.
Between two rounds a request that has begun and is not complete

* goes on (``"never"``),
* goes on, or leaves the cache and keeps its tokens (``"keep"``), or
* goes on, is held in the cache, or leaves it, after which it processes prompt and emitted tokens
  again, or begins anew without tokens (``"recompute"``, in seconds).

The search is best-first over states (time, what each request has). Left out, and why:

1. *Waiting.* A round begins when the one before it ends, or at an arrival: otherwise begin it
   sooner, and whatever follows may stay. Without preemption rounds of a request are consecutive,
   so there a round may also wait one round at a time until everybody has arrived; after that,
   idling delays all that follows.
2. *Holding, or dropping tokens, under "keep".* Leave the cache instead and come back with all
   tokens. Rounds get no longer and hold no more, as adding tokens or a request to a round never
   makes it shorter. A request that begins anew emits some tokens twice: be absent instead. Both are
   tried where the seconds of a round depend on who comes back, or more work may make it shorter
   (``tells``), as in tiles.
3. *Time after the last arrival*, unless requests have deadlines. The rest of the schedule does not
   depend on it, so the delay is paid at once, and the state is one at the last arrival.
4. *Dominated states.* Of two states that differ in time and cost alone, the one that is no later
   and no dearer can do what the other does, by waiting. Without preemption a request that runs
   cannot wait, so there only states of the same time are compared.
5. *Equal requests* (the same arrival, lengths, weight and level) may exchange what they have.
6. *States whose cost plus a bound exceeds the optimum*, by the best-first order. Of the bound: a
   request needs a round for each token left, each no shorter than such a round with nothing else,
   after now and its arrival. On the clock of rounds, moreover, the k-th completion is not before
   the rounds since now, at M tokens each, hold the k smallest amounts still to be stored.
7. *Late requests.* From the time on at which a request is late, or will be, it is not served: all
   late requests may be served after the others. For the same reason a request whose only limit is
   on its first token is complete with that token, where requests may leave the cache.
8. *Divisions.* Replicas are alike and share nothing, so each division of the requests into at most
   K sets is tried, with the optimum of each set on one machine.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

Time = int | Fraction
Level = tuple[Time | None, Time | None, Time | None]
"""Most latency, most time to first token, most mean time of a later token; None without limit."""
ANY: Level = (None, None, None)


class Request(NamedTuple):
    arrival: Time
    prompt: int
    output: int
    weight: int = 1
    level: Level = ANY


class Work(NamedTuple):
    """What a round does with a request that has a place in the cache."""

    tokens: int
    """Processed; 0 where the request is held."""
    before: int
    """Of its prompt, or of what it processes again, processed before."""
    stored: int
    is_prompt: bool


class Problem(NamedTuple):
    requests: tuple[Request, ...]
    limit: int
    rule: tuple[int, str, str] = (1, "now", "whole")
    """Block size, when an emitted token is stored, what a prompt in chunks holds."""
    replicas: int = 1
    preemption: str = "never"
    seconds: Callable[[Sequence[Work]], Time] | None = None
    """Length of a round; None is the clock of rounds."""
    least: Callable[[Work], Time] | None = None
    """Least length of a round with this work, where more work may make a round shorter."""


class TooManyStatesError(Exception):
    """The search opened more states than allowed."""


class _One(NamedTuple):
    """State of a request: tokens emitted, tokens to process before the next, is in the cache.

    ``left`` is 0 unless some of a prompt (or of what is processed again) has been processed, or,
    for a request that has to process all of it, also 0 with ``inside`` False.
    """

    emitted: int = 0
    left: int = 0
    inside: bool = False
    first: Time | None = None


LATE = _One(-1)


class _Option(NamedTuple):
    after: _One
    blocks: int
    work: tuple[Work, ...]


LATENCY, MAKESPAN, LATE_REQUESTS = "latency", "makespan", "late requests"


class _Machine:
    """The search on one machine, in integers of ``unit``."""

    def __init__(self, problem: Problem, goal: str, most_states: int) -> None:
        self.problem, self.goal, self.most_states = problem, goal, most_states
        requests = problem.requests
        if goal == LATE_REQUESTS and problem.preemption != "never":
            only_first = [q.level[0] is None and q.level[2] is None for q in requests]
            requests = tuple(
                q._replace(output=1) if one else q
                for q, one in zip(requests, only_first, strict=True)
            )
        self.requests = tuple(sorted(requests, key=lambda q: (q.arrival, *q[1:4], str(q.level))))
        self.last = max(q.arrival for q in requests)
        pair = (Work(1, 1, 2, True), Work(1, 1, 2, False))
        self.tells = problem.least is not None or (
            problem.seconds is not None
            and (
                problem.seconds(pair[:1]) != problem.seconds(pair[1:])
                or problem.seconds(pair) != problem.seconds((pair[1],) * 2)
            )
        )
        self.options = cache(self._options)
        self.length = cache(self._length)
        self.own = [self._own_time(q) for q in self.requests]
        # Positions of equal requests, which may exchange what they have.
        groups: dict[Request, list[int]] = {}
        for i, q in enumerate(self.requests):
            groups.setdefault(q, []).append(i)
        self.twins = [own for own in groups.values() if len(own) > 1]

    def _length(self, works: tuple[Work, ...]) -> Time:
        return 1 if self.problem.seconds is None else self.problem.seconds(works)

    def _stored(self, tokens: int, *, emits: bool) -> int:
        """Tokens stored of ``tokens`` that a request has after a round."""
        return tokens - (self.problem.rule[1] == "next" and emits)

    def _own_time(self, q: Request) -> list[Time]:
        """Least time from k tokens emitted to the last, for each k."""
        need: list[Time] = [0] * (q.output + 1)
        for k in range(q.output - 1, -1, -1):
            stored = self._stored(q.prompt + k + 1, emits=True)
            work = Work(1, q.prompt, stored, False)
            least = (
                self._length((work,)) if self.problem.least is None else self.problem.least(work)
            )
            need[k] = need[k + 1] + least
        return need

    def _options(self, i: int, one: _One) -> list[_Option]:
        """What a round may do with a request that has arrived and is neither done nor late."""
        q, rule, how = self.requests[i], self.problem.rule, self.problem.preemption
        k, left, inside, first = one
        found: list[_Option] = []

        def add(after: _One, stored: int, work: Work | None) -> None:
            blocks = math.ceil(Fraction(stored, rule[0]))
            if blocks <= self.problem.limit // rule[0]:
                works = () if work is None else (work,)
                found.append(_Option(after, blocks, works))

        def process(had: int, total: int, left: int, *, prompt: bool) -> None:
            """Process ``left`` of ``total`` tokens, then emit; or, of a prompt, a chunk of them."""
            stored = self._stored(q.prompt + had + 1, emits=True)
            work = Work(max(1, left), total - left, stored, prompt)
            stays = had + 1 < q.output and (how == "recompute" or self.tells)
            add(_One(had + 1, 0, stays, first), stored, work)
            if not prompt or self.problem.seconds is None:
                return
            for chunk in range(1, left):
                rest = left - chunk
                stored = total - rest if rule[2] == "chunks" else total
                stays = how == "recompute" or self.tells
                work = Work(chunk, total - left, stored, True)
                add(_One(had, rest, stays, first), stored, work)

        if how == "never":
            if k == 0:
                add(one, 0, None)
            process(k, q.prompt, q.prompt if k == 0 else 1, prompt=k == 0)
        elif how == "keep" and not self.tells:
            add(one, 0, None)
            if k == 0:
                process(0, q.prompt, left or q.prompt, prompt=True)
            else:
                process(k, q.prompt + k, 1, prompt=False)
        else:
            add(_One(k, left if how == "keep" else 0, False, first), 0, None)
            if how == "keep" and not inside and (k or left):
                for rest in {left or 1, q.prompt + k}:
                    process(k, q.prompt + k, rest, prompt=True)
            elif inside:
                held = q.prompt + k
                if left:
                    kept = held - left if rule[2] == "chunks" else held
                    process(k, held, left, prompt=True)
                else:
                    kept = self._stored(held, emits=True)
                    process(k, held, 1, prompt=False)
                add(one, kept, Work(0, 0, kept, False))
            else:
                process(k, q.prompt + k, q.prompt + k, prompt=True)
            if k:
                process(0, q.prompt, q.prompt, prompt=True)
        return found

    def _judged(self, i: int, before: _One, after: _One, end: Time) -> _One:
        """Note the time of the first token, or that the request is late."""
        q = self.requests[i]
        latency, first_token, per_token = q.level
        emits = after.emitted > before.emitted
        if emits and before.emitted == 0 and before.first is None:
            if first_token is not None and end - q.arrival > first_token:
                return LATE
            if per_token is not None:
                after = after._replace(first=end)
        if latency is not None and end + self.own[i][after.emitted] - q.arrival > latency:
            return LATE
        if after.emitted == q.output:
            gaps = max(1, q.output - 1)
            if per_token is not None and end - after.first > per_token * gaps:
                return LATE
            return _One(q.output)
        return after

    def _is_over(self, i: int, one: _One) -> bool:
        return one.emitted in (-1, self.requests[i].output)

    def _rest(self, now: Time, state: tuple[_One, ...]) -> Time:
        """A lower bound on what is still to be paid."""
        open_ = [i for i, one in enumerate(state) if not self._is_over(i, one)]
        if self.goal == LATE_REQUESTS or not open_:
            return 0 if self.goal != MAKESPAN else now
        ends = [max(now, self.requests[i].arrival) + self.own[i][state[i].emitted] for i in open_]
        amounts = []
        if self.problem.seconds is None:
            for i in open_:
                s, k, o = self.requests[i].prompt, state[i].emitted, self.requests[i].output
                unstored = self.problem.rule[1] == "next"
                amounts.append(sum(s + j - unstored for j in range(k + 1, o + 1)))
        fill = list(itertools.accumulate(sorted(amounts)))
        if self.goal == MAKESPAN:
            volume = now + math.ceil(fill[-1] / self.problem.limit) if fill else now
            return max(*ends, volume)
        weights = [self.requests[i].weight for i in open_]
        alone = sum(w * end for w, end in zip(weights, ends, strict=True))
        if not fill:
            return alone
        # The k-th completion with the k-th largest weight.
        together = zip(sorted(weights, reverse=True), sorted(ends), fill, strict=True)
        least = sum(w * max(end, now + math.ceil(v / self.problem.limit)) for w, end, v in together)
        return max(alone, least)

    def _batches(self, state: tuple[_One, ...], now: Time) -> Iterator[list[_Option]]:
        """Every way to serve some requests in a round that begins now, and not to serve any."""
        most = self.problem.limit // self.problem.rule[0]
        rows: list[list[_Option]] = [
            self.options(i, one)
            if self.requests[i].arrival <= now and not self._is_over(i, one)
            else [_Option(one, 0, ())]
            for i, one in enumerate(state)
        ]

        def extend(i: int, blocks: int) -> Iterator[list[_Option]]:
            if i == len(rows):
                yield []
                return
            for option in rows[i]:
                if blocks + option.blocks <= most:
                    for others in extend(i + 1, blocks + option.blocks):
                        yield [option, *others]

        return extend(0, 0)

    def least(self) -> Time:
        """The optimum of the goal."""
        requests, goal = self.requests, self.goal
        never = self.problem.preemption == "never"
        weights = [q.weight for q in requests]
        start = tuple(_One() for _ in requests)
        queue: list[Any] = []
        known: dict[Any, list[tuple[Time, Time]]] = {}
        tick = itertools.count()

        def reach(now: Time, paid: Time, state: tuple[_One, ...]) -> None:
            open_ = [i for i, one in enumerate(state) if not self._is_over(i, one)]
            if goal != LATE_REQUESTS and now > self.last and open_:
                late, now = now - self.last, self.last
                paid += late * (1 if goal == MAKESPAN else sum(weights[i] for i in open_))
            ranked = list(state)
            for own in self.twins:
                best = sorted((state[i] for i in own), key=lambda one: (*one[:3], one[3] or 0))
                for i, one in zip(own, best, strict=True):
                    ranked[i] = one
            state = tuple(ranked)
            seen = known.setdefault((state, now) if never else state, [])
            if any(t <= now and cost <= paid for t, cost in seen):
                return
            seen[:] = [one for one in seen if one[0] < now or one[1] < paid]
            seen.append((now, paid))
            bound = paid + self._rest(now, state)
            heapq.heappush(queue, (bound, next(tick), now, paid, state))

        reach(min(q.arrival for q in requests), 0, start)
        opened = 0
        while queue:
            bound, _, now, paid, state = heapq.heappop(queue)
            if state is None:
                return paid
            open_ = [i for i, one in enumerate(state) if not self._is_over(i, one)]
            if not open_:
                arrivals = sum(q.weight * q.arrival for q in requests)
                return bound - (arrivals if goal == LATENCY else 0)
            if (now, paid) not in known[(state, now) if never else state]:
                continue
            opened += 1
            if opened > self.most_states:
                raise TooManyStatesError
            if goal == LATE_REQUESTS:
                # Serve nobody from now on.
                heapq.heappush(queue, (paid + len(open_), -1, now, paid + len(open_), None))
            later = sorted({q.arrival for q in requests if q.arrival > now})
            if never and later and not any(state[i].emitted > 0 for i in open_):
                reach(now + 1, paid, state)
            for begin in [now] if never else [now, *later]:
                arriving = {i for i in open_ if requests[i].arrival == begin > now}
                for chosen in self._batches(state, begin):
                    works = tuple(work for one in chosen for work in one.work)
                    if not any(work.tokens for work in works):
                        continue
                    if begin > now and not any(chosen[i].work for i in arriving):
                        continue
                    end, cost = begin + self.length(works), paid
                    new = [one.after for one in chosen]
                    for i in open_:
                        new[i] = self._judged(i, state[i], new[i], end)
                        if goal == LATENCY and self._is_over(i, new[i]):
                            cost += weights[i] * end
                        cost += goal == LATE_REQUESTS and new[i] == LATE
                    reach(end, cost, tuple(new))
        raise AssertionError("nothing serves this")


def _divided(
    problem: Problem, alone: Callable[[tuple[Request, ...]], Time], join: Callable[[Any], Time]
) -> Time:
    """The least over all divisions among the replicas; ``join`` is that of two machines."""
    values: dict[int, Time] = {}
    requests = problem.requests

    def value(members: int) -> Time:
        if members not in values:
            values[members] = alone(tuple(q for i, q in enumerate(requests) if members >> i & 1))
        return values[members]

    @cache
    def least(left: int, machines: int) -> Time:
        if machines == 1 or left.bit_count() == 1:
            return value(left)
        first, found = left & -left, [value(left)]
        others = left ^ first
        part = others
        while part:
            part = (part - 1) & others
            found.append(join((value(part | first), least(others ^ part, machines - 1))))
        return min(found)

    return least((1 << len(requests)) - 1, problem.replicas)


def _optimum(problem: Problem, goal: str, states: int) -> Time:
    def alone(requests: tuple[Request, ...]) -> Time:
        return _Machine(problem._replace(requests=requests), goal, states).least()

    return _divided(problem, alone, max if goal == MAKESPAN else sum)


def least_total_latency(problem: Problem, states: int = 100_000) -> Time:
    """The least sum of weight times latency."""
    requests = tuple(q._replace(level=ANY) for q in problem.requests)
    return _optimum(problem._replace(requests=requests), LATENCY, states)


def least_makespan(problem: Problem, states: int = 100_000) -> Time:
    """The least time of the last completion."""
    requests = tuple(q._replace(level=ANY, weight=1) for q in problem.requests)
    return _optimum(problem._replace(requests=requests), MAKESPAN, states)


def most_on_time(problem: Problem, states: int = 100_000) -> int:
    """The most requests that keep their levels together."""
    requests = tuple(q._replace(weight=1) for q in problem.requests)
    late = _optimum(problem._replace(requests=requests), LATE_REQUESTS, states)
    return len(requests) - int(late)


def fewest_replicas(problem: Problem, share: Fraction, states: int = 100_000) -> int | None:
    """The fewest replicas that serve the share on time; None where no number does."""
    for replicas in range(1, len(problem.requests) + 1):
        on_time = most_on_time(problem._replace(replicas=replicas), states)
        if on_time >= share * len(problem.requests):
            return replicas
    return None


def within(
    problem: Problem, place: int, most: Time, first_token: bool, states: int = 100_000
) -> bool:
    """Whether the ``place``-th smallest time can be at most ``most``: all others come after."""
    level: Level = (None, most, None) if first_token else (most, None, None)
    requests = tuple(q._replace(level=level) for q in problem.requests)
    return most_on_time(problem._replace(requests=requests), states) >= place


def least_quantile(
    problem: Problem,
    place: int,
    first_token: bool,
    unit: Fraction = Fraction(1),
    states: int = 100_000,
) -> Time:
    """The least ``place``-th smallest latency, or time to first token; a multiple of ``unit``."""
    most = 1
    while not within(problem, place, most * unit, first_token, states):
        most *= 2
    least = most // 2 + 1
    while least < most:
        middle = (least + most) // 2
        if within(problem, place, middle * unit, first_token, states):
            most = middle
        else:
            least = middle + 1
    return most * unit


def least_first_tokens(problem: Problem, states: int = 100_000) -> Time:
    """The least sum of times to first token: what follows a first token may be dropped."""
    requests = tuple(q._replace(output=1) for q in problem.requests)
    return least_total_latency(problem._replace(requests=requests), states)
