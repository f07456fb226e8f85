"""Sources of instances as text: read, written, and refused in one line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import instances
from instances import FileFormatError, Instance, UnknownNameError
from instances.problem.memory_rule import VLLM_BLOCKS
from online import AffineTime
from online.commands.sources import (
    SETTINGS,
    Source,
    parse_source,
    read_instances,
    read_sources,
    trace_options,
)

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
settings = st.dictionaries(
    st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True), names.map(str.strip), max_size=3
)


@given(st.sampled_from([*SETTINGS]), names, settings)
@example("file", "drawn(1).json", {})
@example("file", "drawn(1)", {"memory_rule": "vllm"})
@example("trace", "a(b=1).csv", {"arrival": "received, at", "prompt": "it's", "output": '"(x)"'})
@example("trace", "log.csv", {"prompt": "tokens\\in", "output": ""})
def test_what_is_written_is_read_again(kind: str, name: str, given: dict[str, str]) -> None:
    source = Source(kind, name, given)
    assert parse_source(str(source)) == source


@pytest.mark.parametrize(
    ("text", "kind", "name", "given"),
    [
        ("generator:uniform", "generator", "uniform", {}),
        ("generator:uniform()", "generator", "uniform", {}),
        ("generator:uniform(n=10,memory-limit = 8,)", "generator", "uniform", {"n": "10"}),
        ("library:j25-*", "library", "j25-*", {}),
        ("worst-n7-00", "library", "worst-n7-00", {}),
        ("missing.json", "file", "missing.json", {}),
        ("folder/missing", "file", "folder/missing", {}),
        ("trace:a b.csv(prompt='in, all', output=out put)", "trace", "a b.csv", {}),
    ],
)
def test_forms(text: str, kind: str, name: str, given: dict[str, str]) -> None:
    source = parse_source(text)
    assert (source.kind, source.name) == (kind, name)
    assert source.settings.items() >= given.items()
    if kind == "trace":
        assert source.settings == {"prompt": "in, all", "output": "out put"}


def test_a_file_that_is_there_is_taken_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = Instance.from_arrays([1], [2], memory_limit=8, name="one")
    for name in ("worst-n7-00", "generator:uniform(n=3)", "x(n=1)"):
        instances.save(one, name)
        assert read_instances([parse_source(name)])[0] == [one]
    assert parse_source("x(n=1)", bare="trace") == Source("trace", "x(n=1)")
    with pytest.raises(UnknownNameError, match="unknown setting of file:x"):
        read_sources([parse_source("file:x(n=1)")])


def test_draws_have_ascending_seeds_and_a_memory_rule() -> None:
    text = "generator:uniform(n=3, seed=4, count=2, memory_rule=tokens)"
    problems, _ = read_sources([parse_source(text)])
    assert problems == [instances.generate("uniform", s, n=3) for s in (4, 5)]
    rules = {"vllm": VLLM_BLOCKS, "blocks:4": replace(VLLM_BLOCKS, block_size=4)}
    for name, rule in rules.items():
        source = parse_source(f"generator:uniform(n=3, memory_rule={name})")
        assert read_sources([source])[0][0].memory_rule == rule


def test_a_pattern_of_the_library_is_all_of_its_instances() -> None:
    problems, _ = read_sources([parse_source("library:worst-n7-0*")])
    assert problems == [one.instance for one in instances.library().matching("worst-n7-0*")]
    assert len(problems) > 1


def test_columns_are_listed_as_they_are_typed(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text('"Start, time",Prompt (tokens),"Output ""n"" tok\'ens"\n0,9,2\n', "utf-8")
    with pytest.raises(FileFormatError) as refused:
        instances.read_log(path)
    listed = re.search(r"its columns are (.*); type '(.*)', with", str(refused.value))
    assert listed is not None
    typed = listed[2]
    for name in re.split(', (?=")', listed[1]):
        typed = typed.replace("NAME", name, 1)
    columns = trace_options(parse_source(typed))["columns"]
    assert instances.read_log(path, columns=columns).output_lengths.tolist() == [2]


def test_a_trace_says_what_its_columns_hold(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("when,asked,10\n0,3,2\n1,4,1\n", "utf-8")
    text = f"trace:{path}(memory_limit=9, arrival=when, prompt=asked, output=10, round_seconds=1)"
    problems, notes = read_sources([parse_source(text)])
    columns = {"arrival": "when", "prompt": "asked", "output": "10"}
    expected, report = instances.read_trace(path, memory_limit=9, columns=columns, round_seconds=1)
    assert problems == [expected]
    assert notes == [str(report), instances.rounding_note(expected.metadata)]
    faster = parse_source(text.replace("round_seconds=1", "faster=2"))
    ((workload,), _) = read_sources([faster], batch_time=AffineTime(1.0))
    assert workload.arrival_times.tolist() == [0, 0.5]
