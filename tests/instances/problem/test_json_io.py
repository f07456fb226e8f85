"""JSON: round trip, every way a file can be wrong, known bounds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import instances, json_values, names, packed_schedules

from instances import (
    FileFormatError,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    KnownBounds,
    Request,
    generate,
    known_bounds,
    load,
    save,
)

in_one_folder = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def small() -> Instance:
    return Instance([Request(0, 2, 3, "a"), Request(4, 1, 2, 7), Request(4, 5, 1)], 8, "small")


def document(**changes: object) -> dict:
    """A sound document with some keys replaced; a value of ... removes the key."""
    base: dict = {
        "format": "llm-hindsight/instance",
        "version": 1,
        "name": "n",
        "memory_limit": 8,
        "metadata": {},
        "requests": [
            {"id": "a", "arrival_time": 0, "prompt_length": 2, "output_length": 3},
            {"id": "b", "arrival_time": 1, "prompt_length": 1, "output_length": 1},
        ],
    }
    merged = {**base, **changes}
    return {key: value for key, value in merged.items() if value is not ...}


def request_document(**changes: object) -> dict:
    first, second = document()["requests"]
    second = {k: v for k, v in {**second, **changes}.items() if v is not ...}
    return document(requests=[first, second])


def written(folder: Path, content: object) -> Path:
    path = folder / "instance.json"
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(content)
    return path


@in_one_folder
@given(
    instance=instances(max_weight=3),
    name=st.none() | names(),
    identifiers=st.lists(
        names() | st.integers(-(2**128) + 1, 2**128 - 1), min_size=6, max_size=6, unique_by=str
    ),
    metadata=st.dictionaries(
        st.text().filter(lambda key: key not in ("known_bounds", "allow_zero_prompt_length")),
        json_values(),
        max_size=3,
    ),
)
def test_round_trip(tmp_path, instance, name, identifiers, metadata) -> None:
    original = Instance(
        [dataclasses.replace(q, id=i) for q, i in zip(instance, identifiers, strict=False)],
        instance.memory_limit,
        name,
        metadata,
    )
    path = tmp_path / "instance.json"
    save(original, path)
    twin = load(path)
    assert twin == original
    assert twin.digest == original.digest
    assert [type(i) for i in twin.ids] == [type(i) for i in original.ids]
    assert [q.weight for q in twin] == [q.weight for q in original]
    first = path.read_bytes()
    written = [entry.get("weight") for entry in json.loads(first)["requests"]]
    assert written == [None if q.weight == 1 else q.weight for q in original]
    save(twin, path)
    assert path.read_bytes() == first


def test_instances_generated_with_numpy_parameters_can_be_saved(tmp_path: Path) -> None:
    instance = generate("arrival-model-1", seed=np.int64(4), n=np.int64(5))
    save(instance, tmp_path / "x.json")
    assert load(tmp_path / "x.json").digest == instance.digest


def test_the_format_on_disk_is_plain_to_other_readers(tmp_path: Path) -> None:
    save(small(), tmp_path / "x.json")
    content = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert content["format"] == "llm-hindsight/instance"
    assert content["version"] == 1
    assert content["memory_limit"] == 8
    assert content["requests"][1] == {
        "id": 7,
        "arrival_time": 4,
        "prompt_length": 1,
        "output_length": 2,
    }


def test_a_version_1_file_written_by_hand_is_read(tmp_path: Path) -> None:
    # Files in the wild must stay readable: optional keys may be absent.
    path = written(
        tmp_path,
        '{"format": "llm-hindsight/instance", "version": 1, "memory_limit": 8,'
        ' "requests": [{"prompt_length": 2, "output_length": 3}]}',
    )
    assert load(path) == Instance([Request(0, 2, 3, 0)], 8)


def with_text(old: str, new: str) -> str:
    text = json.dumps(document())
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not valid JSON"),
        ("[]", "format is None"),
        (b'{"name": "\xff"}', "UTF-8"),
        (document(format="other"), "format is 'other'"),
        (document(version=2), "version is 2"),
        (document(version="1"), "version is '1'"),
        (document(version=True), "version is True"),
        (document(version=1.0), "version is 1.0"),
        (document(version=...), "version is None"),
        (document(memory_limit=...), "'memory_limit' is missing"),
        (document(requests=...), "'requests' is missing"),
        (document(requests={}), "not a list"),
        (document(requests=[3]), "request 0 is not a JSON object"),
        (document(metadata={"rate": float("nan")}), "NaN is not valid JSON"),
        (request_document(prompt_length=...), "request 1: key 'prompt_length' is missing"),
        (request_document(output_length=...), "request 1: key 'output_length' is missing"),
        (request_document(priority=3), "request 1: unknown key 'priority'"),
        (document(memory_limt=9), "memory_limt"),
        (with_text('"version": 1', '"version": 1, "version": 1'), "'version' is there twice"),
        (with_text('"id": "a"', '"id": "a", "id": "b"'), "'id' is there twice"),
        (with_text("{}", '{"a": 1, "a": 1}'), "'a' is there twice"),
        (with_text('"memory_limit": 8', f'"memory_limit": {"9" * 5000}'), "Exceeds the limit"),
        ("[" * 100_000, "is nested more than 100 deep"),
        ('{"metadata": ' + '{"a":' * 900 + "1" + "}" * 901, "is nested more than 100 deep"),
        ('{"memory_limit": ' + "9" * 400 + "}", "holds an integer of more than 300 digits"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_files_that_are_not_instances(tmp_path: Path, content: object, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(FileFormatError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error", "named"),
    [
        (request_document(prompt_length=1.0), InvalidTypeError, "request 'b': prompt_length"),
        (request_document(prompt_length=8), InvalidValueError, "'b'.*can never run"),
        (request_document(id="a"), InvalidValueError, "used twice"),
        (request_document(id="\x1b[31m"), InvalidValueError, "id"),
        (request_document(weight=0), InvalidValueError, "request 'b': weight"),
        (document(memory_rule=7), FileFormatError, "not a JSON object"),
        (document(memory_rule={"blocks": 3}), FileFormatError, "unknown key 'blocks'"),
        (document(memory_rule={"block_size": 0}), InvalidValueError, "block_size"),
        (document(memory_rule={"emitted_token": "later"}), InvalidValueError, "emitted_token"),
        (document(memory_limit="8"), InvalidTypeError, "memory_limit"),
        (document(requests=[]), InvalidValueError, "empty"),
        (document(name=3), InvalidTypeError, "name"),
        (document(metadata=[]), InvalidTypeError, "metadata"),
        (document(replicas=0), InvalidValueError, "replicas"),
    ],
    ids=ascii,
)
def test_rules_of_instances_hold_for_files(
    tmp_path: Path, content: dict, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named) as caught:
        load(written(tmp_path, content))
    assert str(caught.value).isprintable()


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    save(small(), tmp_path / "whole.json")
    whole = (tmp_path / "whole.json").read_text(encoding="utf-8")
    path = tmp_path / "part.json"
    for length in range(len(whole.rstrip())):
        path.write_text(whole[:length], encoding="utf-8")
        with pytest.raises(FileFormatError) as caught:
            load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, object(), np.int64(3), b"x"],
    ids=["nan", "inf", "set", "object", "int64", "bytes"],
)
def test_metadata_json_cannot_hold_is_refused_and_leaves_no_file(tmp_path: Path, value) -> None:
    path = tmp_path / "x.json"
    for _ in range(2):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(InvalidTypeError, match="metadata"):
            save(small().replaced(metadata={"extra": value}), path)
        assert [one.read_bytes() for one in tmp_path.iterdir()] == ([before] if before else [])
        save(small(), path)


@in_one_folder
@given(schedule=packed_schedules(), below=st.integers(0, 5), text=st.none() | st.text())
def test_known_bounds_travel_with_the_instance(tmp_path, schedule, below, text) -> None:
    upper = schedule.total_latency
    lower = max(0, upper - below)
    bounds = KnownBounds(upper, lower, lower, schedule.start_times.tolist(), text)
    instance = bounds.attached_to(schedule.instance)
    assert known_bounds(instance) == bounds
    assert instance.digest == schedule.instance.digest
    save(instance, tmp_path / "x.json")
    twin = load(tmp_path / "x.json")
    assert known_bounds(twin) == bounds
    assert twin == instance


def test_what_is_not_known_stays_none(tmp_path: Path) -> None:
    assert known_bounds(small()) is None
    save(KnownBounds(lower_bound=3).attached_to(small()), tmp_path / "x.json")
    assert known_bounds(load(tmp_path / "x.json")) == KnownBounds(None, 3, None, None, None)
