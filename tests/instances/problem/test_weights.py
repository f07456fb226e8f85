"""Weights of requests: what they change in an instance and its schedules, and what they do not."""

from __future__ import annotations

from pathlib import Path

from instances import Instance, Schedule, Workload, load, save

COLUMNS = ([1, 2, 1], [3, 2, 1], [0, 1, 1])


def weighted(*weights: int) -> Instance:
    return Instance.from_arrays(*COLUMNS, memory_limit=6, weights=weights)


def test_weights_of_one_leave_everything_as_it_was(tmp_path: Path) -> None:
    plain, ones = Instance.from_arrays(*COLUMNS, memory_limit=6), weighted(1, 1, 1)
    assert ones == plain
    assert not ones.is_weighted
    assert ones.digest == plain.digest
    assert (ones.total_weight, ones.total_output_length) == (3, 6)
    assert "weight" not in ones._repr_html_()
    ones.refuse_weights("is not 1")
    for one, name in ((plain, "plain.json"), (ones, "ones.json")):
        save(one, tmp_path / name)
    assert (tmp_path / "plain.json").read_text() == (tmp_path / "ones.json").read_text()


def test_weighted_costs_and_means() -> None:
    instance = weighted(1, 5, 2)
    schedule = Schedule(instance, [0, 2, 4])
    assert schedule.latencies.tolist() == [3, 3, 4]
    assert schedule.total_latency == 3 + 5 * 3 + 2 * 4
    assert schedule.total_waiting == 5 * 1 + 2 * 3
    assert schedule.mean_latency == schedule.total_latency / 8
    assert instance.total_output_length == 3 + 5 * 2 + 2 * 1
    assert "1 to 5" in instance._repr_html_()
    assert f"{26 / 8:.6g} rounds" in schedule._repr_html_()


def test_weights_are_part_of_the_problem(tmp_path: Path) -> None:
    assert len({weighted(*w).digest for w in ((1, 1, 1), (1, 5, 2), (5, 1, 2), (1, 2, 5))}) == 4
    instance = weighted(1, 5, 2)
    assert instance != weighted(1, 5, 3)
    assert instance.of([2, 1]).weights.tolist() == [2, 5]
    assert instance.renamed("x").digest == instance.digest
    save(instance, tmp_path / "weighted.json")
    assert load(tmp_path / "weighted.json") == instance


def test_weights_stand_in_frames_only_where_there_are_any() -> None:
    instance = weighted(1, 5, 2)
    assert instance.frame()["weight"].tolist() == [1, 5, 2]
    assert Schedule(instance, [0, 2, 4]).frame()["weight"].tolist() == [1, 5, 2]
    assert "weight" not in weighted(1, 1, 1).frame()
    assert "weight" not in Workload([0.0], [1], [1], memory_limit=4).frame()
