"""`Request`: the ends of its fields, what is computed of them, and that it is a value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from strategies import requests

from instances import Request

FIELDS = {"arrival_time": 0, "prompt_length": 0, "output_length": 1}


def request_with(field: str, value: object, **others: object) -> Request:
    arguments: dict = {"arrival_time": 0, "prompt_length": 1, "output_length": 1, **others}
    return Request(**{**arguments, field: value})


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
