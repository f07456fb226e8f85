"""What every place that takes a number from outside refuses, and what it takes alike."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from instances import InvalidTypeError, InvalidValueError

Door = Callable[[Any], Any]

NO_NUMBERS = [
    True,
    np.True_,
    "1",
    1j,
    object,
    np.timedelta64(1, "s"),
    float("nan"),
    float("inf"),
    np.float32("nan"),
    -(10**400),
    10**400,
    10**5000,
    Fraction(10**400),
]
NO_INTEGERS = [*NO_NUMBERS, 1.0, np.float64(1), Fraction(3, 2)]


def assert_no_number(door: Door, value: Any) -> None:
    """Assert that the door refuses the value in one short line."""
    with pytest.raises((InvalidTypeError, InvalidValueError)) as caught:
        door(value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def assert_same_number(door: Door, number: float, *kinds: Any) -> None:
    """Assert that it is taken alike in every type, by texts: np.float64(0.5) is not 0.5."""
    expected = repr(door(number))
    for kind in kinds:
        assert repr(door(kind(number))) == expected
