"""Results together: a data frame and a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from online.experiment import ratio_rows, ratio_table, read_results


def test_a_frame_has_a_line_for_each_trial(tiny_results: Path) -> None:
    pytest.importorskip("pandas")
    results = read_results(tiny_results)
    frame = results.frame()
    records = [result.record for result in results]
    assert len(frame) == len(records)
    assert frame["total_latency"].tolist() == [one.total_latency for one in records if one]
    assert frame["family"].tolist() == [result.family for result in results]
    lower, upper = frame["ratio_lower"].tolist(), frame["ratio_upper"].tolist()
    assert list(zip(lower, upper, strict=True)) == [
        one.ratio.ends for one in records if one and one.ratio
    ]


def test_the_table_is_that_of_the_command(tiny_results: Path) -> None:
    results = read_results(tiny_results)
    assert results.ratios() == ratio_table(ratio_rows(results))
    assert "<table" in results._repr_html_()
    for one in (results, results[0], results[0].shown):
        assert len(repr(one)) < 120
