from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instances import FileFormatError
from studies.reproduction.conditions import OWN, Conditions
from studies.reproduction.length_file import read_lengths
from studies.reproduction.w25.length_figures import statistics
from studies.reproduction.w25.lengths import Lengths, central_range, mixture, summaries

HEADING = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"


@pytest.fixture
def given(tmp_path: Path) -> Conditions:
    """Forty requests (3000 + k, k), which no law of conversations reaches."""
    rows = "".join(f"{3000 + k},{k},{3000 + 2 * k},1.0\n" for k in range(1, 41))
    path = tmp_path / "arxiv.csv"
    path.write_text(HEADING + rows)
    return OWN.with_lengths("arxiv", read_lengths(path))


def test_a_fifth_of_the_mixture_is_drawn_from_the_file_without_repetition(
    given: Conditions,
) -> None:
    drawn = mixture(np.random.default_rng(0), 200, given)
    long = drawn.prompts >= 3000
    assert long.sum() == 40
    assert sorted(drawn.prompts[long]) == list(range(3001, 3041))
    # A request keeps its own output, and the order is shuffled.
    assert (drawn.prompts[long] - drawn.outputs[long] == 3000).all()
    assert 10 < long[:100].sum() < 30


def test_without_a_file_summaries_have_their_published_medians() -> None:
    drawn = summaries(np.random.default_rng(0), 4000)
    found = statistics(drawn)
    assert found["prompt", "median"] == pytest.approx(2667.5, rel=0.02)
    assert found["output", "median"] == pytest.approx(161, rel=0.05)


def test_a_file_that_is_too_short_is_refused(given: Conditions) -> None:
    with pytest.raises(FileFormatError, match="holds 40 requests .* and 41 are needed"):
        summaries(np.random.default_rng(0), 41, given)


def test_statistics_of_few_lengths() -> None:
    found = statistics(Lengths(np.array([1, 2, 9]), np.array([5, 7, 9])))
    assert list(found.values()) == [4.0, 2.0, 7.0, 7.0]


@pytest.mark.parametrize(("count", "ends"), [(1000, (5, 994)), (200, (1, 198)), (50, (0, 49))])
def test_the_central_range_cuts_both_tails_alike(count: int, ends: tuple[int, int]) -> None:
    shuffled = np.random.default_rng(0).permutation(count).tolist()
    assert central_range(shuffled) == ends
