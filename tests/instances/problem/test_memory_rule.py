"""Rules by which memory is counted, and what of an instance they change."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from instances import Instance, MemoryRule, Schedule, Workload, load, save

NEXT = MemoryRule(emitted_token="next")
BLOCKS = MemoryRule(4, "next", "chunks")


@pytest.mark.parametrize(("rule", "limit"), [(NEXT, 9), (BLOCKS, 12), (MemoryRule(5), 10)])
def test_a_request_that_just_fits_the_rule_is_accepted(rule: MemoryRule, limit: int) -> None:
    lengths: dict[str, Any] = {"memory_limit": limit, "memory_rule": rule}
    assert Instance.from_arrays([4], [6], **lengths).memory_rule == rule
    assert Workload([0.5], [4], [6], **lengths).memory_rule == rule


def test_a_prompt_of_no_token_is_allowed_where_told() -> None:
    zero = {"allow_zero_prompt_length": True}
    assert len(Instance.from_arrays([0], [2], memory_limit=9, metadata=zero)) == 1
    assert len(Workload([0.0], [0], [2], memory_limit=9, metadata=zero)) == 1


def test_copies_keep_the_rule(tmp_path: Path) -> None:
    instance = Instance.from_arrays([4, 1], [6, 2], [0, 3], memory_limit=19, memory_rule=BLOCKS)
    save(instance, tmp_path / "one.json")
    copies = [
        instance.renamed(None),
        deepcopy(instance),
        load(tmp_path / "one.json"),
        instance.replaced(memory_rule=MemoryRule()).replaced(memory_rule=BLOCKS),
    ]
    assert all(copy == instance and copy.memory_rule == BLOCKS for copy in copies)
    assert instance.replaced(metadata={"a": 1}).memory_rule == BLOCKS
    workload = Workload.from_instance(instance)
    for copy in (workload, workload.faster(2), workload.renamed("b", {})):
        assert copy.memory_rule == BLOCKS
    assert deepcopy(workload).digest == workload.digest


def test_the_rule_tells_instances_apart_and_the_default_changes_nothing() -> None:
    plain = Instance.from_arrays([4, 1], [6, 2], [0, 3], memory_limit=19)
    arrivals = Workload([0.5, 2.0], [4, 1], [6, 2], memory_limit=19)
    # Of the release before there were rules.
    assert plain.digest == "8648fadac11d83772afb61eb3b9c35155ddc537a4b272ff05f7e780df8ad73db"
    assert arrivals.digest == "e150aa75dd6875b4136b0d417fbc1b4cca2f6078f4409a5b38e477eef20b2a52"
    assert repr(plain) == "Instance(2 requests, memory_limit=19)"
    rules = [MemoryRule(), NEXT, BLOCKS, MemoryRule(4), MemoryRule(4, "next")]
    assert len({plain.replaced(memory_rule=rule).digest for rule in rules}) == len(rules)
    assert len({arrivals.replaced(memory_rule=rule).digest for rule in rules}) == len(rules)
    assert plain.replaced(memory_rule=NEXT) != plain
    assert "block_size 4, emitted_token next" in repr(plain.replaced(memory_rule=BLOCKS))
    assert "block_size 4, emitted_token next" in repr(arrivals.replaced(memory_rule=BLOCKS))


def test_a_schedule_before_round_0_is_examined_in_blocks() -> None:
    instance = Instance.from_arrays([3, 3], [2, 2], memory_limit=9, memory_rule=MemoryRule(4))
    (first, second, memory) = Schedule(instance, [-5, -5]).violations()
    assert (first.amount, second.amount) == (5, 5)
    assert (memory.round_index, memory.amount) == (-3, 8)
