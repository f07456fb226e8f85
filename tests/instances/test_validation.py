"""`Request` and `as_integer`: every field, every bad type and value."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import names, requests

from instances import InvalidTypeError, InvalidValueError, Request
from instances.validation import as_number

FIELDS = {"arrival_time": 0, "prompt_length": 0, "output_length": 1}


def request_with(field: str, value: object, **others: object) -> Request:
    arguments: dict = {"arrival_time": 0, "prompt_length": 1, "output_length": 1, **others}
    return Request(**{**arguments, field: value})


NOT_INTEGERS = [True, np.True_, 1.0, np.float32(3.0), "3", None, [1], 3 + 0j, np.array(1)]
NOT_INTEGERS += [np.datetime64("2023-01-01"), np.timedelta64(1)]


@pytest.mark.parametrize(("field", "minimum"), FIELDS.items())
def test_the_smallest_and_the_largest_values_are_accepted(field: str, minimum: int) -> None:
    largest = 2**53 if field == "arrival_time" else 2**31 - 1
    for value in (minimum, largest):
        assert getattr(request_with(field, value), field) == value


@pytest.mark.parametrize("kind", [np.int8, np.uint64])
@pytest.mark.parametrize("field", FIELDS)
def test_numpy_integers_become_plain_ones(field: str, kind: type) -> None:
    value = getattr(request_with(field, kind(7)), field)
    assert value == 7
    assert type(value) is int


@given(requests(max_memory=40, max_arrival=9, min_prompt=0))
def test_peak_and_volume_are_sums_over_the_run(request_: Request) -> None:
    held = [request_.prompt_length + age for age in range(1, request_.output_length + 1)]
    assert request_.peak_memory == held[-1]
    assert request_.volume == sum(held)


def test_an_id_has_at_most_128_bits() -> None:
    assert Request(0, 1, 1, 2**128 - 1).id == 2**128 - 1


@given(requests(max_arrival=9), st.none() | names() | st.integers(-(2**64), 2**64))
def test_requests_are_values(request_: Request, identifier: str | int | None) -> None:
    labelled = dataclasses.replace(request_, id=identifier)
    twin = Request(
        labelled.arrival_time, labelled.prompt_length, labelled.output_length, identifier
    )
    assert labelled == twin
    assert hash(labelled) == hash(twin)
    assert pickle.loads(pickle.dumps(labelled)) == labelled  # noqa: S301 (our own bytes)
    assert copy.deepcopy(labelled) == labelled
    assert labelled != dataclasses.replace(labelled, output_length=labelled.output_length + 1)


@pytest.mark.parametrize("value", [1, 1.5, np.int64(2), np.float32(0.5)])
def test_a_number_is_a_float(value: float) -> None:
    assert as_number(value, None, "x", minimum=0.5, above=0, below=3) == float(value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.True_, InvalidTypeError),
        ("1", InvalidTypeError),
        (1j, InvalidTypeError),
        (float("nan"), InvalidValueError),
        (-float("inf"), InvalidValueError),
        (10**400, InvalidValueError),
        (0.5, InvalidValueError),
        (0, InvalidValueError),
        (3, InvalidValueError),
    ],
)
def test_what_is_no_number_in_its_range(value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="x = "):
        as_number(value, None, "x", minimum=0, above=0.5, below=3)
