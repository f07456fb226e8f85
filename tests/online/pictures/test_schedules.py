"""Pictures of schedules and runs: what is drawn, read back from matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted import Scripted

import hindsight
import instances
import online
from instances import Instance, InvalidValueError, PreemptiveSchedule, Schedule, Workload
from online import pictures

EXAMPLE_1 = Instance.from_arrays(
    [63] + [1] * 21, [1] + [2] * 21, memory_limit=64, name="[W25] Example 1"
)


@pytest.fixture(scope="module")
def evicting() -> online.Run:
    draw = instances.generate("arrival-model-1", seed=10, n=10)
    return online.simulate(draw, "a-min", predictions=online.ProportionalPredictions(0.5))


@pytest.fixture(scope="module")
def timed() -> online.Run:
    machine = {"memory_limit": 50, "batch_time": online.AffineTime(0.05, 0.001)}
    return online.simulate(Workload([0.0, 0.1, 5.0], [4, 4, 30], [6, 6, 2], **machine), "mc-sf")


def polygons(ax: Any) -> list[tuple[tuple[int, ...], float]]:
    """Colour and area of every band."""
    return [
        (
            tuple((255 * np.array(patch.get_facecolor()[:3])).round().astype(int).tolist()),
            float((patch.get_data().values - patch.get_data().baseline).sum()),
        )
        for patch in ax.patches
    ]


def drawn(ax: Any) -> Any:
    """The axes after a full drawing, which fails where something cannot be drawn."""
    ax.figure.draw_without_rendering()
    return ax


def test_a_policy_and_the_optimum_are_drawn_on_equal_axes() -> None:
    run, optimum = online.simulate(EXAMPLE_1, "mc-sf"), hindsight.solve(EXAMPLE_1)
    above, below = pictures.policy_and_optimum(run, optimum)
    drawn(above)
    assert above.get_title(loc="left") == "mc-sf: total latency 64, ratio 1.4222"
    assert below.get_title(loc="left") == "hindsight optimum: total latency 45"
    assert above.get_xlim() == below.get_xlim()
    assert above.get_ylim() == below.get_ylim()
    assert above.get_ylim()[1] > 64
    for ax in (above, below):
        # The long prompt fills M for a round; a short one holds 2 and then 3 tokens.
        assert sorted(area for _, area in polygons(ax)) == [5.0] * 21 + [64.0]
        assert [line.get_ydata()[0] for line in ax.lines if line.get_gid()] == [64]
        assert "M = 64" in [text.get_text() for text in ax.texts]
        assert ax.get_ylabel() == "KV cache (tokens)"
    assert below.get_xlabel() == "time (rounds)"
    colour_of = [{area: colour for colour, area in polygons(ax)} for ax in (above, below)]
    assert colour_of[0] == colour_of[1]
    assert colour_of[0][5.0] != colour_of[0][64.0]


def test_an_unproved_optimum_is_called_a_schedule() -> None:
    draw = instances.generate("arrival-model-1", seed=1, n=12)
    run, found = online.simulate(draw, "fcfs"), hindsight.solve(draw, time_limit=0)
    assert found.lower_bound < found.upper_bound
    above, below = pictures.policy_and_optimum(run, found, axes=pictures.new_axes(rows=2))
    assert f"ratio {online.ratio(run, found)}" in above.get_title(loc="left")
    assert "[" in above.get_title(loc="left")
    title = below.get_title(loc="left")
    assert title.startswith("best schedule known: total latency")
    assert title.endswith(f"optimum at least {found.lower_bound:,}")


def test_a_run_that_keeps_tokens_is_drawn_above_the_preemptive_optimum_by_name() -> None:
    pair = Instance.from_arrays([8, 8], [5, 5], memory_limit=22)
    engine = online.make_policy("vllm-v0", preemption="recompute")
    run, best = online.simulate(pair, engine), hindsight.solve(pair, preemption="keep")
    assert run.keeps_tokens
    above, below = pictures.policy_and_optimum(run, best)
    assert f"ratio {online.ratio(run, best)}" in above.get_title(loc="left")
    assert below.get_title(loc="left").startswith("preemptive optimum: total latency")


def test_lost_work_is_drawn_and_named(evicting: online.Run) -> None:
    ax = drawn(pictures.stacked_memory(evicting))
    assert len(polygons(ax)) == len(evicting.attempts.request)
    assert sum(area for _, area in polygons(ax)) == evicting.memory_profile().sum()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["tokens lost"]
    assert ax.get_title(loc="left") == f"a-min: total latency {evicting.total_latency:,}"


def test_work_that_was_kept_is_drawn_as_in_the_optimum() -> None:
    """The second request is stopped twice, with its tokens once and without them once."""
    pair = Instance.from_arrays([1, 1], [9, 4], memory_limit=20)
    steps = {0: {"start": [0, 1]}, 2: {"preempt": [1]}, 3: {"start": [1]}, 4: {"evict": [1]}}
    steps[6] = {"start": [1]}
    rule = lambda _, state: online.Decision(**steps.get(state.round_index, {}), wake=0)  # noqa: E731
    run = online.simulate(pair, Scripted(rule))
    assert run.evictions == 2
    for ax in (drawn(pictures.stacked_memory(run)), drawn(pictures.gantt(run))):
        assert sum(patch.get_hatch() is not None for patch in ax.patches) == 1
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches if not bar.get_hatch()]
    assert sorted(bars) == [(0.0, 2.0), (0.0, 9.0), (6.0, 4.0)]


def test_a_run_is_named_with_its_parameters() -> None:
    run = online.simulate(EXAMPLE_1, "vllm(order=shortest-output)")
    title = drawn(pictures.stacked_memory(run)).get_title(loc="left")
    assert title.startswith("vllm(order=shortest-output): total latency")


def test_an_axes_given_is_used_and_its_figure_kept() -> None:
    (left, right) = pictures.new_axes(columns=2)
    schedule = Schedule(Instance.from_arrays([1], [2], memory_limit=4), [0])
    assert pictures.stacked_memory(schedule, ax=left, title="mine", colorbar=False) is left
    assert left.get_title(loc="left") == "mine"
    assert not right.patches
    assert len(left.figure.axes) == 2


# --- Gantt -------------------------------------------------------------------------------------


def test_a_request_that_is_stopped_has_a_bar_and_a_band_for_each_stretch() -> None:
    pair = Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10)
    stopped = PreemptiveSchedule(pair, [[(1, 1), (3, 10)], [(2, 2)]])
    ax = drawn(pictures.gantt(stopped))
    bars = [(bar.get_x(), bar.get_width(), round(bar.get_y() + 0.39)) for bar in ax.patches]
    assert sorted(bars) == [(0.0, 1.0, 0), (1.0, 1.0, 1), (2.0, 8.0, 0)]
    (waits,) = [c for c in ax.collections if len(c.get_paths()) == 2]
    # The stopped request waits, behind its bars, until it goes on for the last time.
    lines = [path.vertices[:, 0].tolist() for path in waits.get_paths()]
    assert lines == [[0.0, 2.0], [1.0, 1.0]]
    assert ax.get_legend() is None
    ax = drawn(pictures.stacked_memory(stopped))
    # 2 tokens in round 1; 9 of the other in round 2; 3, 4, ..., 10 from round 3 on.
    assert sorted(area for _, area in polygons(ax)) == [2.0, 9.0, 52.0]
    assert ax.get_title(loc="left") == "total latency 11"


def test_gantt_rows_go_by_arrival_and_wait_before_they_run() -> None:
    three = Instance.from_arrays([1, 2, 1], [3, 2, 2], [4, 0, 1], memory_limit=7)
    ax = drawn(pictures.gantt(Schedule(three, [6, 0, 2])))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "0"]
    (waits,) = [c for c in ax.collections if len(c.get_paths()) == 3]
    lines = [path.vertices[:, 0].tolist() for path in waits.get_paths()]
    assert lines == [[4.0, 6.0], [0.0, 0.0], [1.0, 2.0]]
    bars = {bar.get_x(): (bar.get_width(), round(bar.get_y() + 0.39)) for bar in ax.patches}
    assert bars == {6.0: (3.0, 2), 0.0: (2.0, 0), 2.0: (2.0, 1)}
    assert ax.get_xlabel() == "time (rounds)"


def test_gantt_shows_every_attempt(evicting: online.Run) -> None:
    ax = drawn(pictures.gantt(evicting))
    assert len(ax.patches) == len(evicting.attempts.request)
    hatched = [bar for bar in ax.patches if bar.get_hatch()]
    assert len(hatched) == int((~evicting.attempts.completed).sum())


def test_gantt_of_a_timed_run_is_in_seconds(timed: online.Run) -> None:
    ax = drawn(pictures.gantt(timed))
    ends = sorted(bar.get_x() + bar.get_width() for bar in ax.patches)
    assert ends == pytest.approx(sorted(timed.completion_times))
    assert sorted(bar.get_x() for bar in ax.patches) == pytest.approx(sorted(timed.start_times))
    assert ax.get_xlabel() == "time (s)"


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_equal_pictures_are_equal_files(tmp_path: Path, suffix: str) -> None:
    schedule = Schedule(Instance.from_arrays([1, 1], [2, 3], memory_limit=9), [0, 0])
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        pictures.save(pictures.stacked_memory(schedule), path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert first.startswith((b"\x89PNG", b"<?xml", b"%PDF"))


def test_another_suffix_leaves_no_file(tmp_path: Path) -> None:
    ax = pictures.new_axes()
    with pytest.raises(InvalidValueError, match=r"does not end in \.png"):
        pictures.save(ax, tmp_path / "a.jpg")
    with pytest.raises(FileNotFoundError):
        pictures.save(ax, tmp_path / "missing" / "a.png")
    assert list(tmp_path.iterdir()) == []
