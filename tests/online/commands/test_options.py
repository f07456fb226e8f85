"""Options that several subcommands share, and what subcommands do with files and limits."""

from __future__ import annotations

from fractions import Fraction

import pytest

from instances import ServiceLevel, Workload
from online import AffineTime, sweep
from online.commands.options import service_level
from online.commands.ratio_report import Report


@pytest.mark.parametrize(
    ("texts", "level"),
    [
        (None, None),
        ([], None),
        (["latency=30"], ServiceLevel(latency=30)),
        (["e2e=30", "first-token=1", "tpot=0.1"], ServiceLevel(30, 1, 0.1)),
        (["ttft=2"], ServiceLevel(first_token=2)),
    ],
)
def test_limits_of_the_command_line_make_one_service_level(texts, level):
    assert service_level(texts) == level


def test_ends_of_intervals_are_written_rounded_outwards() -> None:
    work = Workload([0.1], [1], [3], memory_limit=10, batch_time=AffineTime(0.1, 0.2))
    found = sweep([work], "fcfs", time_limit=0)
    assert found[0].lower == found[0].upper == Fraction(9, 10)
    (row,) = Report(found, []).document()["trials"]
    assert Fraction(row["lower"]) <= Fraction(9, 10) <= Fraction(row["upper"])
    assert Fraction(row["certified"]) <= Fraction(9, 10)
