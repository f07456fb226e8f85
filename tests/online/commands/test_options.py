"""Options that several subcommands share."""

from fractions import Fraction

import pytest

from instances import ServiceLevel, Workload
from instances.batch_time import AffineTime
from online import compare
from online.commands.json_output import record_entry
from online.commands.options import service_level


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
    (found,) = compare(work, ["fcfs"], time_limit=0)
    assert found.optimum_lower == found.optimum_upper == Fraction(9, 10)
    entry = record_entry(found)
    for name in ("optimum", "mean_optimum"):
        low, high = entry[name]
        assert Fraction(low) <= Fraction(9, 10) <= Fraction(high)
    assert Fraction(entry["optimum_certified"]) <= Fraction(9, 10)
