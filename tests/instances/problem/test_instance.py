"""`Instance`: validation at the door, immutability, digest, pickling, columns."""

from __future__ import annotations

import copy
import hashlib
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from strategies import instances

from instances import Instance, Request, Workload


def small() -> Instance:
    return Instance([Request(0, 2, 3, "a"), Request(4, 1, 2, "b"), Request(4, 5, 1)], 8, "small")


FLAG = "allow_zero_prompt_length"
ONE, BARE = Request(0, 1, 1), Request(0, 0, 2, "bare")


def test_what_is_just_allowed() -> None:
    assert len(Instance(iter([Request(0, 5, 5)]), np.int64(10))) == 1  # type: ignore[arg-type]
    assert type(Instance([ONE], np.int64(9)).memory_limit) is int  # type: ignore[arg-type]
    assert Instance([BARE], 10, metadata={FLAG: True, "a": "b\nc"}).prompt_lengths.tolist() == [0]
    assert small().ids == ("a", "b", 2)
    faster = Workload([1.0, 3.0], [1, 1], [1, 1], memory_limit=9, name="w").faster(4)
    assert (faster.name, faster.arrival_times.tolist()) == ("w x4", [0.25, 0.75])


@pytest.mark.parametrize("text", ["", "a b", "é", "名前", "👩\u200d🚀", "x\u00a0y", "=1+1"])
def test_any_other_text_is_a_name(text: str) -> None:
    assert Instance([Request(0, 1, 1, text)], 4, text).name == text


def test_columns_hold_the_requests_numbers() -> None:
    instance = small()
    assert instance.arrival_times.tolist() == [0, 4, 4]
    assert instance.prompt_lengths.tolist() == [2, 1, 5]
    assert instance.output_lengths.tolist() == [3, 2, 1]
    assert instance.total_output_length == 6
    assert instance.peak_memories.tolist() == [5, 3, 6]
    # 3+4+5, 2+3, 6
    assert instance.volumes.tolist() == [12, 5, 6]


def test_metadata_cannot_be_changed_through_the_instance_or_its_source() -> None:
    source, requests = {"origin": {"seed": 1}}, [Request(0, 1, 1)]
    instance = Instance(requests, 4, metadata=source)
    source["origin"]["seed"] = 2
    requests.append(Request(0, 1, 1))
    assert dict(instance.metadata) == {"origin": {"seed": 1}}
    assert len(instance) == 1


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
    assert small() != small().replaced(metadata={"a": 1})
    assert small() != Instance(small().requests, 9, "small")
    assert small() != Instance(small().requests[:2], 8, "small")
    assert small() != "small"


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


@given(instances())
def test_pickle_and_copies_keep_everything(instance: Instance) -> None:
    instance = instance.replaced(metadata={"origin": {"seed": 3}}).renamed("n")
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
        with pytest.raises(AttributeError):
            twin.memory_limit = 1


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
