from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instances import FileFormatError, UnknownNameError
from instances.batch_time import preset
from studies.reproduction import (
    OWN,
    Conditions,
    Setting,
    read_recorded,
    record,
    reproduction,
    reproduction_names,
)
from studies.reproduction.j25 import serving
from studies.reproduction.length_file import read_lengths
from studies.reproduction.lengths import drawn_lengths

NAMES = [name for name in reproduction_names() if "lmsys" in reproduction(name).lengths]


@pytest.fixture
def given(tmp_path: Path) -> Conditions:
    """2,500 conversations whose outputs are twice their prompts, none as any law has them."""
    rows = "".join(f"{k},{2 * k}\n" for k in (1 + step % 125 for step in range(2500)))
    path = tmp_path / "lmsys.csv"
    path.write_text(f"prompt_tokens,output_tokens\n{rows}")
    return OWN.with_lengths("lmsys", read_lengths(path))


def test_rows_are_drawn_whole_without_repetition_up_to_the_longest(given: Conditions) -> None:
    source = given.conversations("lmsys-like")
    prompts, outputs = drawn_lengths(source, np.random.default_rng(0), 2000, (100, 2000))
    assert (outputs == 2 * prompts).all()
    # 20 rows of each prompt up to 100 are all there are.
    assert np.bincount(prompts).tolist() == [0, *[20] * 100]
    with pytest.raises(FileFormatError, match="holds 2,000 requests with prompts up to 100"):
        drawn_lengths(source, np.random.default_rng(0), 2001, (100, 2000))


def test_a_file_that_changes_under_way_is_refused(given: Conditions, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("prompt_words,output_words\n1,2\n")
    assert given.lmsys is not None
    changed = Conditions(lmsys=read_lengths(path)).lmsys
    assert changed is not None
    kept = Conditions(lmsys=type(changed)(path, "words", given.lmsys.digest, 1, 1.0, 2.0))
    with pytest.raises(FileFormatError, match="has changed"):
        drawn_lengths(kept.conversations("lmsys-like"), np.random.default_rng(0), 1, (9, 9))


def test_arrivals_stay_and_sizes_are_prefixes_whatever_the_lengths(given: Conditions) -> None:
    usual = serving.workload(50, 10.0, 3)
    for conditions in (given, OWN.varied("lengths", "three-moments"), OWN.varied("memory", "9000")):
        found = serving.workload(50, 10.0, 3, conditions)
        fewer = serving.workload(20, 10.0, 3, conditions)
        assert found.arrival_times.tolist() == usual.arrival_times.tolist()
        assert fewer.output_lengths.tolist() == found.output_lengths[:20].tolist()
        assert (found.memory_limit == 9000) == (conditions.memory is not None)
        # Memory alone leaves the lengths alone too.
        same = found.output_lengths.tolist() == usual.output_lengths.tolist()
        assert same == (conditions.memory is not None)


def test_exactly_one_thing_is_varied() -> None:
    own = preset("llama-2-70b-2xa100").batch_time
    assert OWN.change == ""
    assert OWN.seconds(own) is own
    assert OWN.memory_limit(7) == 7
    for what, value in (
        ("lengths", "three-moments"),
        ("memory", "5"),
        ("batch-time", "affine:1,0,0"),
    ):
        varied = OWN.varied(what, value)
        assert varied.change == f"{what}={value}"
        assert (varied.conversations("lmsys-like") == "lmsys-like") == (what != "lengths")
        assert (varied.seconds(own) is own) == (what != "batch-time")
        assert (varied.memory_limit(7) == 7) == (what != "memory")
    with pytest.raises(UnknownNameError):
        OWN.varied("weather", "rain")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_readers_file_goes_through_every_measurement_that_names_it(
    name: str, given: Conditions, tmp_path: Path
) -> None:
    study, setting = reproduction(name), Setting(quick=True, conditions=given)
    record(study, study.measure(setting), setting, tmp_path)
    recorded = read_recorded(tmp_path / f"{name}.json")
    assert recorded.lengths["lmsys"] == str(given.lmsys)
    assert "synthetic" not in recorded.remark
    assert all(each.counts for each in recorded.statements)
    # Nothing but figures: no file holds as many lines as there are conversations, and the path.
    for path in tmp_path.glob(f"{name}.*"):
        assert str(tmp_path).encode() not in path.read_bytes()
    assert len((tmp_path / f"{name}.csv").read_text().splitlines()) < 2500
