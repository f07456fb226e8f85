"""Errors cross process boundaries whole: workers raise them, the parent prints them."""

from __future__ import annotations

import pickle

import pytest

from instances import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError

ERRORS = [
    InvalidValueError("request 3", "output_length", -1, "is below 1"),
    InvalidValueError(None, "seed", -1, "is below 0"),
    InvalidTypeError("instance", "name", 4, "is not a string"),
    FileFormatError("some/file.csv", "is broken", row=12),
    FileFormatError("some/file.json", "is broken"),
    UnknownNameError("generator", "nope", ["a", "b"]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_pickling_keeps_type_message_and_fields(error: Exception) -> None:
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own bytes)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_messages_are_one_line(error: Exception) -> None:
    assert "\n" not in str(error)


def test_messages_name_owner_field_value_and_place() -> None:
    assert str(ERRORS[0]) == "request 3: output_length = -1 is below 1"
    assert str(ERRORS[1]) == "seed = -1 is below 0"
    assert str(ERRORS[3]) == "some/file.csv, row 12: is broken"
    assert str(ERRORS[4]) == "some/file.json: is broken"
    near = UnknownNameError("policy", "MC_SF", ["fcfs", "mc-sf"])
    assert str(near) == "unknown policy 'MC_SF'; did you mean 'mc-sf'? Known: fcfs, mc-sf"
    many = [f"name {number}" for number in range(99)]
    assert str(UnknownNameError("policy", "q", many)).endswith("name 38, name 39 and 59 more")
    assert str(UnknownNameError("policy", "name98", many)).endswith("mean 'name 98' or 'name 9'?")
    assert str(ERRORS[5]) == "unknown generator 'nope'; known: a, b"
