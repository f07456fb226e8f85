"""Values of a request under prices of machine time, in fractions, as the numbered proof says.

`hindsight.prices.round_length_values` computes the same in floats, rounded outward. Blocks, the
grid, lambdas and lengths with a common lambda are choices that any bound may make: they are those
of the compiled loops, computed here in plain floats. Everything that is proved about them is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Cell = tuple[Fraction, Fraction, Fraction, Fraction]
"""pi, alpha, beta and mu of the request in a cell."""

Prices = Sequence[Cell]
"""Prices of all cells; they are 0 after the last."""

SHRINK = Fraction(1 - 1e-12)
"""Own times are whole steps of the grid after this factor, so that no float is above them."""

FREE = (Fraction(0),) * 4


@dataclass(frozen=True)
class Case:
    """One request, the machine and the grid; ``end`` and ``first_token`` are deadlines."""

    arrival: Fraction
    prompt: int
    output: int
    memory: int
    minorant: tuple[Fraction, Fraction, Fraction]
    cell: Fraction
    prices: Prices
    step: Fraction
    size: int
    spread: float
    allowance: float
    end: Fraction | None = None
    first_token: Fraction | None = None

    @property
    def width(self) -> int:
        """Steps of a cell."""
        return int(self.cell / self.step)

    def prices_between(self, first: int, last: int) -> list[Cell]:
        """Prices of the cells of grid points ``first`` to ``last``."""
        cells = range(max(first, 0) // self.width, last // self.width + 1)
        return [self.prices[c] if c < len(self.prices) else FREE for c in cells]


@dataclass(frozen=True)
class Block:
    """(1, 3) The work and the share d0 kv / M of each step, and least seconds of all."""

    works: list[Fraction]
    own: Fraction
    shares: list[Fraction]


def blocks_of(case: Case) -> list[Block]:
    """(3) The prompt is a block of its own, with (d1 + d2) s where it may come in chunks."""
    d0, d1, d2 = case.minorant
    blocks, done = [], 0
    while done < case.output:
        steps = 1 if not done else max(1, (case.prompt + done) // 2)
        steps = min(steps, case.size, case.output - done)
        held = [case.prompt + done + j for j in range(1, steps + 1)]
        processed = case.prompt if not done else 1
        own = sum((d0 + d1 * processed + d2 * kv for kv in held), Fraction(0))
        works = [d1 * processed + d2 * kv for kv in held]
        if not done and case.prompt > 1:
            held, works = [case.prompt], [(d1 + d2) * case.prompt]
        shares = [d0 * kv / case.memory for kv in held]
        blocks.append(Block(works, own * SHRINK, shares))
        done += steps
    return blocks


def linear(block: Block, prices: Cell) -> Fraction:
    """(1) c of the first step."""
    price, alpha, beta, levy = prices
    return alpha * block.shares[0] + (price - beta) * block.works[0] + levy


def conjugate(case: Case, block: Block, rate: Fraction, prices: Cell) -> tuple[Fraction, Fraction]:
    """(1) phi*(lambda), and the x that reaches it, with a root in floats."""
    d0, beta = case.minorant[0], prices[2]
    rest, priced = rate - linear(block, prices), beta * block.works[0]
    if rest <= priced:
        return Fraction(0), Fraction(0)
    least = block.works[0] / (d0 + block.works[0])
    slack = max(Fraction(math.sqrt(priced / rest)), least)
    x = (1 - slack) / d0
    return x * (rest - priced / slack if slack else rest), x


def best_rate(case: Case, block: Block, begin: int, lasts: float) -> Fraction:
    """A good lambda; every other one would be as valid."""
    d0, work = float(case.minorant[0]), float(block.works[0])
    step, width, steps = float(case.step), case.width, len(block.works)
    ends = begin + lasts / step
    cells = range(
        min(begin // width, len(case.prices)), min(int(ends) // width, len(case.prices)) + 1
    )
    prices = [case.prices[c] if c < len(case.prices) else FREE for c in cells]
    slack = max(work / (d0 + work), 0.02)
    low = min(float(linear(block, one)) + float(one[2]) * work for one in prices)
    high = max(float(linear(block, one)) + float(one[2]) * work / slack**2 for one in prices)
    best, most = low, low * steps
    for _ in range(7):
        rate = math.sqrt(low * high) if low > 0 else 0.5 * high
        made, paid = 0.0, rate * steps
        for c, both in zip(cells, prices, strict=True):
            until = ends if c == len(case.prices) else min(ends, (c + 1.0) * width)
            seconds = step * (until - max(begin, c * width))
            phi, x = conjugate(case, block, Fraction(rate), both)
            made += seconds * float(x)
            paid -= seconds * float(phi)
        if paid > most:
            best, most = rate, paid
        low, high = (rate, high) if made < steps else (low, rate)
    return Fraction(best)


def slopes(case: Case, block: Block, points: range, lengths: tuple[int, int]) -> Iterator[Fraction]:
    """Lambdas between the best at the four corners of a range, with equal ratios."""
    corners = [
        float(best_rate(case, block, begin, float(case.step) * lasts))
        for lasts in lengths
        for begin in (points[0], points[0] + len(points))
    ]
    rate, high = min(corners), max(corners)
    least = max(rate, high / 4096)
    yield Fraction(rate)
    while rate < high:
        ratio = max(min(case.spread, math.sqrt(high / least)), (high / least) ** (1 / 12))
        rate = min(high, ratio * max(rate, least))
        yield Fraction(rate)


def ends_by_tangent(
    case: Case,
    block: Block,
    rate: Fraction,
    points: range,
    windows: list[range],
    after: Callable[[int], Fraction],
) -> list[list[tuple[Fraction, Fraction]]]:
    """(5) A pair of ends of each step of the grid, for the lengths of each window."""
    late, wide = windows[-1].stop, len(windows[0]) + 2
    last = points[-1] + late + 2
    ends = [(c + 1) * case.width for c in range(points[0] // case.width, len(case.prices))]
    phi = [Fraction(0)]
    for m in range(points[0], last):
        if m == points[0] or m in ends:
            growth = case.step * conjugate(case, block, rate, case.prices_between(m, m)[0])[0]
        phi.append(phi[-1] + growth)
    early = windows[0].start
    rest = [after(points[0] + y) - phi[y] for y in range(early, last - points[0] + 1)]
    # All t + E of a step lie between ``wide`` grid points.
    least = [min(rest[y : y + wide]) for y in range(len(rest) - wide + 1)]
    ways: list[list[tuple[Fraction, Fraction]]] = [[] for _ in windows]
    for x, m in enumerate(points):
        if m == points[0] or m in ends:
            # Blocks that begin in the same cell, as far as it has points of the group.
            further = min(points[0] + len(points) + late + 2, (m // case.width + 1) * case.width)
            if m // case.width >= len(case.prices):
                further = last
            prices = case.prices_between(m, further + late + 1)
            price, alpha = (min(one[k] for one in prices) for k in range(2))
            constant = rate * len(block.works)
            constant += alpha * sum(one - block.shares[0] for one in block.shares)
            constant += price * sum(one - block.works[0] for one in block.works)
        for lengths, pairs in zip(windows, ways, strict=True):
            until = constant + least[x + lengths.start - early]
            pairs.append((until + phi[x], until + phi[x + 1]))
    return ways


def least_payment(case: Case, block: Block, first: int, last: int) -> Fraction:
    """(2) The payment of all steps at the least price from one grid point to another."""
    prices = case.prices_between(first, last)
    least = min(linear(block, one) + one[2] * block.works[0] for one in prices)
    return len(block.works) * least


def lower_group(
    case: Case,
    block: Block,
    points: range,
    lengths: tuple[int, int],
    after: Callable[[int], Fraction],
    values: dict[int, Any],
) -> None:
    """(5) Lower the values to the ends of all ranges of lengths up to X."""
    d0, step = float(case.minorant[0]), float(case.step)
    least, work = len(block.works) * d0, float(block.works[0])
    begin, end = points[0], points[0] + len(points)
    early, longest = lengths
    while early < longest:
        free = max(step * early - least, len(block.works) * work)
        width = max(1, int(min(free * min(1 / 8, case.spread - 1), max(free / 64, d0)) / step))
        starts = range(early, min(longest, early + 8 * width), width)
        windows = [range(one, one + width) for one in starts]
        first, early = early, windows[-1].stop
        dear = least_payment(case, block, begin, end + early)
        if all(dear + after(m + first) >= values[m] for m in range(begin, end + 1)):
            continue
        ways = [
            ends_by_tangent(case, block, rate, points, windows, after)
            for rate in slopes(case, block, points, (first, early))
        ]
        for window in zip(*ways, strict=True):
            for m, some in zip(points, zip(*window, strict=True), strict=True):
                left, right = max(some, key=sum)
                values[m], values[m + 1] = min(values[m], left), min(values[m + 1], right)


def lower_ends(
    case: Case,
    block: Block,
    window: tuple[int, int],
    lengths: tuple[int, int],
    after: Callable[[int], Fraction],
) -> dict[int, Any]:
    """(5) The lower of the two ends of each grid point from the first to the last."""
    low, high = window
    values: dict[int, Any] = dict.fromkeys(range(low, high + 2), math.inf)
    group = int(2 * float(case.minorant[0]) / float(case.step)) + 1
    m = low
    while m <= high:
        count = min(max(case.width - m % case.width, group), high + 1 - m)
        lower_group(case, block, range(m, m + count), lengths, after, values)
        m += count
    return values


def value(case: Case) -> Fraction:
    """(4) The least completion less the arrival and all payments, or of 1 and these, from below."""
    d0, step = case.minorant[0], case.step
    cut = float(case.arrival) + case.allowance
    dearest = max(float(one[2]) for one in case.prices)
    blocks = blocks_of(case)
    low = begin = int(case.arrival / step)
    low += sum(int(block.own / step) for block in blocks)
    known: dict[int, Fraction] = {}
    remaining, ceiling = Fraction(0), Fraction(0)

    def tail(point: int) -> Fraction:
        """(7, 8) G_k beyond the window."""
        earliest = (point - 1) * step + remaining
        if case.end is not None:
            return Fraction(1) if earliest >= case.end else ceiling
        return point * step + remaining if earliest >= ceiling else ceiling

    def after(point: int) -> Fraction:
        return known[point] if point in known else tail(point)

    for k in reversed(range(len(blocks))):
        block, steps = blocks[k], len(blocks[k].works)
        before = low
        low -= int(block.own / step)
        shortest = max(int(block.own / step), before - low)
        best = steps * float(d0 + Fraction(math.sqrt(dearest * block.works[0] * d0)))
        own = float(block.own)
        left = remaining + block.own
        high = max(int((cut - float(left)) / float(step)) + 1, low + 1)
        most = cut if case.end is None else 1 - 1e-8
        while high > low + 1 and high - 1 in known and known[high - 1] > most:
            high -= 1
        slowest = int(max(40 * own, own + min(80 * best, 400 * own) / steps) / float(step))
        longest = max(min(slowest, high - low + shortest), shortest) + 1
        values = lower_ends(case, block, (low, high), (shortest, longest), after)
        # (7) A start after the last computed point counts from it.
        least = high * step + left
        least = least if case.end is None else Fraction(int(least >= case.end))
        if high + min(shortest, 1) >= before:
            least = max(least, after(high + min(shortest, 1)))
        found = {}
        for m in range(high, low - 1, -1):
            # (2, 6) A long block, then all later starts.
            paid = least_payment(case, block, m - 1, m + 1 + longest)
            least = min(least, paid + after(m + longest), values[m])
            found[m] = least
        # (8) G_1 is where the first token is out.
        if k == 1 and case.first_token is not None:
            for m in found:
                if (m - 1) * step >= case.first_token:
                    found[m] = Fraction(1)
        known, remaining, ceiling = found, left, found[high]
    part = case.arrival / step - begin
    late = case.arrival if case.end is None else 0
    return (1 - part) * after(begin) + part * after(begin + 1) - late
