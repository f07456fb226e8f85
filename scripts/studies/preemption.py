"""Gain from preemption that keeps tokens: the preemptive optimum over the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import hindsight
from instances import Instance
from online.comparison.ratios import Interval
from online.runtime.table import Table


@dataclass(frozen=True)
class PreemptionGain:
    """Both optima of an instance, or what is proved of them.

    Attributes
    ----------
    family : str
        Where the instance is from.
    requests, memory_limit : int
        Its size.
    optimum, preemptive : tuple[int, int]
        Lower and upper bound of the total latency without preemption and with it, rounds.
    """

    family: str
    requests: int
    memory_limit: int
    optimum: tuple[int, int]
    preemptive: tuple[int, int]

    @property
    def ratio(self) -> Interval:
        """Preemptive optimum over optimum: in (0, 1]."""
        least = Fraction(self.preemptive[0], self.optimum[1])
        most = Fraction(self.preemptive[1], self.optimum[0])
        return Interval(least, min(most, Fraction(1)))

    @property
    def is_proved(self) -> bool:
        """Tell whether both optima are proved."""
        return all(low == high for low, high in (self.optimum, self.preemptive))


def preemption_gain(
    family: str, instance: Instance, time_limit: float, seed: int = 0
) -> PreemptionGain:
    """Solve an instance without preemption and with it, each within ``time_limit`` seconds.

    The second search starts from the schedule of the first, so the ratio is at most 1.
    """
    whole = hindsight.solve(instance, time_limit, 1, seed)
    parts = hindsight.solve(instance, time_limit, 1, seed, preemptive=True, start=whole.schedule)
    return PreemptionGain(
        family,
        len(instance),
        instance.memory_limit,
        (whole.lower_bound, whole.upper_bound),
        (parts.lower_bound, parts.upper_bound),
    )


def gain_table(gains: Sequence[PreemptionGain]) -> Table:
    """Make a row for each family: number of proved optima, mean ratio and least ratio."""
    rows = []
    for family, grouped in groupby(gains, key=lambda gain: gain.family):
        own = list(grouped)
        ratios = [gain.ratio for gain in own]
        lows = [ratio.lower for ratio in ratios if ratio.lower is not None]
        highs = [ratio.upper for ratio in ratios if ratio.upper is not None]
        rows.append(
            (
                family,
                _range([gain.requests for gain in own]),
                _range([gain.memory_limit for gain in own]),
                f"{sum(gain.is_proved for gain in own)}/{len(own)}",
                str(
                    Interval(sum(lows, Fraction(0)) / len(own), sum(highs, Fraction(0)) / len(own))
                ),
                str(Interval(min(lows), min(highs))),
                f"{sum(high < 1 for high in highs)}/{len(own)}",
            )
        )
    columns = ("family", "n", "M", "proved", "mean_ratio", "least_ratio", "proved_below_1")
    title = "preemptive optimum / optimum: [at least, at most]"
    main = ("family", "mean_ratio", "least_ratio", "proved_below_1", "proved", "n", "M")
    return Table(title, columns, tuple(rows), frozenset({"family"}), main)


def _range(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else f"{min(sizes)}..{max(sizes)}"
