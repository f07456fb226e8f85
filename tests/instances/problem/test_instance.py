"""`Instance`: validation at the door, immutability, digest, pickling, columns."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import instances, names

from instances import Instance, InvalidTypeError, InvalidValueError, Request, Workload

COLUMNS = ("arrival_times", "prompt_lengths", "output_lengths", "peak_memories", "volumes")


def small() -> Instance:
    return Instance([Request(0, 2, 3, "a"), Request(4, 1, 2, "b"), Request(4, 5, 1)], 8, "small")


# --- validation ---------------------------------------------------------------------------------


def test_an_empty_instance_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="empty"):
        Instance([], 10)
    with pytest.raises(InvalidValueError, match="empty"):
        Instance.from_arrays([], [], memory_limit=10)


@pytest.mark.parametrize("limit", [0, -1, 10**30, float("nan"), float("inf")], ids=repr)
def test_a_memory_limit_out_of_range(limit: object) -> None:
    with pytest.raises(InvalidValueError, match="memory_limit"):
        Instance([Request(0, 1, 1)], limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [True, 10.0, 1e30, "10", None, [10]], ids=repr)
def test_a_memory_limit_of_the_wrong_type(limit: object) -> None:
    with pytest.raises(InvalidTypeError, match="memory_limit"):
        Instance([Request(0, 1, 1)], limit)  # type: ignore[arg-type]


def test_a_numpy_memory_limit_becomes_a_plain_integer() -> None:
    assert type(Instance([Request(0, 1, 1)], np.int64(9)).memory_limit) is int  # type: ignore[arg-type]


def test_a_request_that_can_never_run_is_named() -> None:
    with pytest.raises(InvalidValueError, match="'big'.*11.*memory_limit = 10") as caught:
        Instance([Request(0, 1, 1), Request(0, 5, 6, "big")], 10)
    assert caught.value.owner == "request 'big'"
    assert caught.value.value == 11


def test_a_request_that_just_fits_is_accepted() -> None:
    assert len(Instance([Request(0, 5, 5)], 10)) == 1


def test_the_unnamed_request_is_named_by_its_position() -> None:
    with pytest.raises(InvalidValueError, match="request 1"):
        Instance([Request(0, 1, 1), Request(0, 5, 6)], 10)


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a"), (7, 7), (1, None)], ids=["strings", "integers", "position"]
)
def test_an_id_used_twice_is_refused(first: object, second: object) -> None:
    with pytest.raises(InvalidValueError, match="used twice") as caught:
        Instance([Request(0, 1, 1, first), Request(0, 1, 1, second)], 4)  # type: ignore[arg-type]
    assert caught.value.field == "id"


@pytest.mark.parametrize("ids", [(1, "1"), ("1", 1), (None, "0"), ("-3", -3)])
def test_ids_that_a_table_would_show_alike_are_refused(ids: tuple[str | int | None, ...]) -> None:
    with pytest.raises(InvalidValueError, match="too like"):
        Instance([Request(0, 1, 1, one) for one in ids], 4)
    if None not in ids:
        with pytest.raises(InvalidValueError, match="too like"):
            Workload([0.0, 0.0], [1, 1], [1, 1], memory_limit=4, ids=ids)  # type: ignore[arg-type]


CONTROL = [
    "\x1b[31mred",
    "line\nbreak",
    "\r",
    "\x00",
    "\x7f",
    "\x9b31m",
    "\u2028",
    "\u202eabc",
    "\ud800",
]


@pytest.mark.parametrize("text", CONTROL, ids=ascii)
def test_names_and_ids_hold_no_control_characters(text: str) -> None:
    for refused in (
        lambda: Instance([Request(0, 1, 1)], 4, text),
        lambda: Instance([Request(0, 1, 1)], 4).renamed(text),
        lambda: Request(0, 1, 1, text),
        lambda: Workload([0.0], [1], [1], memory_limit=4, name=text),
        lambda: Workload([0.0], [1], [1], memory_limit=4, ids=[text]),
    ):
        with pytest.raises(InvalidValueError, match="control character") as caught:
            refused()
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["", "a b", "é", "名前", "👩\u200d🚀", "x\u00a0y", "=1+1"])
def test_any_other_text_is_a_name(text: str) -> None:
    assert Instance([Request(0, 1, 1, text)], 4, text).name == text


@pytest.mark.parametrize(
    "metadata",
    [{"a": "\ud800"}, {"\udfff": 1}, {"a": [{"b": ("x", "y\udc80")}]}],
    ids=["value", "key", "deep"],
)
def test_metadata_that_no_file_can_hold_is_refused(metadata: dict[str, Any]) -> None:
    for refused in (
        lambda: Instance([Request(0, 1, 1)], 4, metadata=metadata),
        lambda: Instance([Request(0, 1, 1)], 4).with_metadata(**metadata),
        lambda: Workload([0.0], [1], [1], memory_limit=4, metadata=metadata),
    ):
        with pytest.raises(InvalidValueError, match="surrogate"):
            refused()


def test_metadata_may_hold_lines() -> None:
    assert Instance([Request(0, 1, 1)], 4, metadata={"a": "b\nc"}).metadata["a"] == "b\nc"


def test_missing_ids_are_positions() -> None:
    assert small().ids == ("a", "b", 2)


def test_a_prompt_of_length_zero_needs_the_metadata_flag() -> None:
    request = Request(0, 0, 2, "bare")
    with pytest.raises(InvalidValueError, match="'bare'.*prompt_length"):
        Instance([request], 4)
    flagged = Instance([request], 4, metadata={"allow_zero_prompt_length": True})
    assert flagged.prompt_lengths.tolist() == [0]


@pytest.mark.parametrize("flag", [False, None, 1, "yes"], ids=repr)
def test_only_true_lifts_the_prompt_check(flag: object) -> None:
    with pytest.raises(InvalidValueError, match="prompt_length"):
        Instance([Request(0, 0, 2)], 4, metadata={"allow_zero_prompt_length": flag})


def test_the_flag_cannot_be_taken_from_an_instance_that_needs_it() -> None:
    flagged = Instance([Request(0, 0, 2)], 4, metadata={"allow_zero_prompt_length": True})
    with pytest.raises(InvalidValueError, match="prompt_length"):
        flagged.with_metadata(allow_zero_prompt_length=False)


@pytest.mark.parametrize("entry", [(0, 1, 1), {"prompt_length": 1}, None, 3], ids=repr)
def test_only_requests_are_requests(entry: object) -> None:
    with pytest.raises(InvalidTypeError, match="request 1"):
        Instance([Request(0, 1, 1), entry], 4)  # type: ignore[list-item]


@pytest.mark.parametrize("name", [5, b"x", ["x"]], ids=repr)
def test_a_name_is_a_string(name: object) -> None:
    with pytest.raises(InvalidTypeError, match="name"):
        Instance([Request(0, 1, 1)], 4, name)  # type: ignore[arg-type]


@pytest.mark.parametrize("metadata", [5, "x", [("a", 1)]], ids=repr)
def test_metadata_is_a_mapping(metadata: object) -> None:
    with pytest.raises(InvalidTypeError, match="metadata"):
        Instance([Request(0, 1, 1)], 4, metadata=metadata)  # type: ignore[arg-type]


def test_requests_may_come_from_a_generator() -> None:
    assert len(Instance((Request(0, 1, k) for k in (1, 2, 3)), 9)) == 3


# --- immutability -------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["requests", "memory_limit", "name", "metadata"])
def test_fields_cannot_be_assigned(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(small(), field, None)


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_are_read_only_int64_and_one_entry_a_request(column: str) -> None:
    values = getattr(small(), column)
    assert values.dtype == np.int64
    assert values.shape == (3,)
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 99


def test_columns_hold_the_requests_numbers() -> None:
    instance = small()
    assert instance.arrival_times.tolist() == [0, 4, 4]
    assert instance.prompt_lengths.tolist() == [2, 1, 5]
    assert instance.output_lengths.tolist() == [3, 2, 1]
    assert instance.total_output_length == 6
    assert instance.peak_memories.tolist() == [5, 3, 6]
    # 3+4+5, 2+3, 6
    assert instance.volumes.tolist() == [12, 5, 6]


def test_volumes_of_the_largest_lengths_are_exact_or_refused_at_the_door() -> None:
    try:
        instance = Instance([Request(0, 2**40, 2**40)], 2**41)
    except InvalidValueError:
        return
    assert [int(v) for v in instance.volumes] == [2**80 + 2**40 * (2**40 + 1) // 2]


def test_metadata_cannot_be_changed_through_the_instance_or_its_source() -> None:
    source = {"kind": "x"}
    instance = Instance([Request(0, 1, 1)], 4, metadata=source)
    with pytest.raises(TypeError):
        instance.metadata["kind"] = "y"  # type: ignore[index]
    source["kind"] = "z"
    assert instance.metadata["kind"] == "x"


def test_nested_metadata_does_not_follow_its_source() -> None:
    source = {"origin": {"seed": 1}}
    instance = Instance([Request(0, 1, 1)], 4, metadata=source)
    source["origin"]["seed"] = 2
    assert instance.metadata["origin"]["seed"] == 1


def test_changing_the_list_of_requests_leaves_the_instance_alone() -> None:
    requests = [Request(0, 1, 1)]
    instance = Instance(requests, 4)
    requests.append(Request(0, 1, 1))
    assert len(instance) == 1


def test_with_metadata_and_renamed_are_copies() -> None:
    instance = small()
    more = instance.with_metadata(note="n").renamed("other")
    assert (more.name, dict(more.metadata)) == ("other", {"note": "n"})
    assert (instance.name, dict(instance.metadata)) == ("small", {})
    assert more.requests == instance.requests
    assert more.with_metadata(note="m").metadata["note"] == "m"


# --- sequence behaviour, equality ---------------------------------------------------------------


def test_an_instance_is_a_sequence_of_its_requests() -> None:
    instance = small()
    assert list(instance) == list(instance.requests)
    assert instance[1] == Request(4, 1, 2, "b")
    assert instance[-1].id == 2
    with pytest.raises(IndexError):
        instance[3]


def test_equality_covers_requests_limit_name_and_metadata() -> None:
    assert small() == small()
    assert hash(small()) == hash(small())
    assert small() != small().renamed("x")
    assert small() != small().with_metadata(a=1)
    assert small() != Instance(small().requests, 9, "small")
    assert small() != Instance(small().requests[:2], 8, "small")
    assert small() != "small"


# --- digest -------------------------------------------------------------------------------------


def digest_by_its_definition(instance: Instance) -> str:
    """SHA-256 of the documented content, packed by the standard library."""
    content = f"instance:1:{instance.memory_limit}:{len(instance.requests)}:".encode()
    for q in instance.requests:
        content += struct.pack("<qqq", q.arrival_time, q.prompt_length, q.output_length)
    return hashlib.sha256(content).hexdigest()


def test_digest_is_a_fixed_value_across_versions_and_machines() -> None:
    # Results files refer to instances by this value: a change of it orphans them.
    expected = "5dd54f6f15f485043f4dc0b2e154ad14dfbcd8c131ecd9422255814dca36c3ef"
    assert small().digest == expected


@given(instances())
def test_digest_is_the_documented_hash(instance: Instance) -> None:
    assert instance.digest == digest_by_its_definition(instance)


@given(instances(), st.data())
def test_digest_changes_with_each_number(instance: Instance, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(instance) - 1))
    field = data.draw(st.sampled_from(["arrival_time", "prompt_length", "output_length"]))
    step = data.draw(st.integers(1, 5))
    rows = list(instance.requests)
    rows[index] = dataclasses.replace(rows[index], **{field: getattr(rows[index], field) + step})
    roomy = Instance(instance.requests, 100)
    assert Instance(rows, 100).digest != roomy.digest
    assert roomy.digest != Instance(instance.requests, 101).digest
    assert Instance([*instance.requests, Request(0, 1, 1, "more")], 100).digest != roomy.digest


@given(instances(min_requests=2))
def test_digest_changes_with_the_order(instance: Instance) -> None:
    backwards = list(reversed(instance.requests))
    numbers = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    assume(numbers != numbers[::-1])
    assert Instance(backwards, instance.memory_limit).digest != instance.digest


@given(instances(), names())
def test_digest_ignores_name_ids_and_metadata(instance: Instance, text: str) -> None:
    relabelled = Instance(
        [dataclasses.replace(q, id=f"{text}{k}") for k, q in enumerate(instance)],
        instance.memory_limit,
        text,
        {"note": text},
    )
    assert relabelled.digest == instance.digest


def test_digest_tells_a_moved_unit_from_its_neighbour() -> None:
    # Same multiset of numbers in other columns: a hash of sums or of sorted values collides here.
    rows = [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)]
    digests = {Instance([Request(a, s, o)], 9).digest for a, s, o in rows}
    assert len(digests) == len(rows)


# --- pickling, copying --------------------------------------------------------------------------


@given(instances())
def test_pickle_and_copies_keep_everything(instance: Instance) -> None:
    instance = instance.with_metadata(origin={"seed": 3}).renamed("n")
    instance.digest, instance.volumes  # noqa: B018 (cached values must not get in the way)
    for twin in (
        pickle.loads(pickle.dumps(instance)),  # noqa: S301 (our own bytes)
        copy.copy(instance),
        copy.deepcopy(instance),
    ):
        assert twin == instance
        assert twin.digest == instance.digest
        assert twin.ids == instance.ids
        with pytest.raises(ValueError, match="read-only"):
            twin.output_lengths[0] = 1
        with pytest.raises(TypeError):
            twin.metadata["x"] = 1  # type: ignore[index]
        with pytest.raises(dataclasses.FrozenInstanceError):
            twin.memory_limit = 1  # type: ignore[misc]


# --- from_arrays --------------------------------------------------------------------------------


@given(instances())
def test_from_arrays_builds_the_same_instance(instance: Instance) -> None:
    arguments = (instance.prompt_lengths, instance.output_lengths, instance.arrival_times)
    limit = instance.memory_limit
    assert Instance.from_arrays(*arguments, memory_limit=limit) == instance
    lists = [column.tolist() for column in arguments]
    assert Instance.from_arrays(*lists, memory_limit=limit) == instance


def test_from_arrays_without_arrivals_means_round_0() -> None:
    instance = Instance.from_arrays([1, 2], [3, 4], memory_limit=9, name="n", metadata={"k": 1})
    assert instance.arrival_times.tolist() == [0, 0]
    assert instance.ids == (0, 1)
    assert (instance.name, instance.metadata["k"]) == ("n", 1)


@pytest.mark.parametrize(
    ("prompts", "outputs", "arrivals", "named"),
    [
        ([1, 2], [1], None, "output_lengths"),
        ([1], [1, 2], None, "output_lengths"),
        ([1, 2], [1, 2], [0], "arrival_times"),
        ([1, 2], [1, 2], [0, 0, 0], "arrival_times"),
    ],
)
def test_from_arrays_refuses_columns_of_different_lengths(
    prompts, outputs, arrivals, named
) -> None:
    with pytest.raises(InvalidValueError, match=named):
        Instance.from_arrays(prompts, outputs, arrivals, memory_limit=9)


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        (np.array([1.0, 2.0]), InvalidTypeError),
        (np.array([1.0, np.nan]), (InvalidTypeError, InvalidValueError)),
        (np.array([True, False]), InvalidTypeError),
        (np.array(["1", "2"]), InvalidTypeError),
        (np.array([[1], [2]]), InvalidTypeError),
        ([1, None], InvalidTypeError),
        ([1, 0], InvalidValueError),
        ([1, -2], InvalidValueError),
        ([1, 1e30], InvalidTypeError),
        ([1, 10**30], InvalidValueError),
    ],
    ids=repr,
)
def test_from_arrays_refuses_what_is_not_a_count(outputs, error) -> None:
    with pytest.raises(error, match="output_length"):
        Instance.from_arrays([1, 1], outputs, memory_limit=9)


def test_from_arrays_names_the_offending_row() -> None:
    with pytest.raises(InvalidValueError, match="request 2.*output_length = 0"):
        Instance.from_arrays([1, 1, 1], [1, 1, 0], memory_limit=9)
