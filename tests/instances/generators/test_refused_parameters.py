"""Parameters that generators refuse: the error names the parameter and its value."""

from __future__ import annotations

import math
from typing import Any

import pytest

from instances import InvalidTypeError, InvalidValueError, generate

NAN, INFINITE = float("nan"), float("inf")

OUT_OF_RANGE: list[tuple[str, dict[str, Any]]] = [
    *[(name, {"n": n}) for name in ("arrival-model-1", "arrival-model-2") for n in (0, NAN)],
    ("arrival-model-1", {"memory_limit": 5}),
    ("arrival-model-2", {"memory_limit": 5}),
    ("uniform", {"n": 0}),
    ("uniform", {"memory_limit": 99}),
    ("uniform", {"maximum_length": 1}),
    ("normal", {"mean": NAN}),
    ("normal", {"standard_deviation": 0}),
    ("normal", {"maximum_length": 1}),
    ("binomial", {"probability": 1}),
    ("binomial", {"n": 0}),
    ("exponential", {"scale": -1.0}),
    ("exponential", {"scale": INFINITE}),
    ("exponential", {"scale": 10**400}),
    ("mixed", {"n": 0}),
    ("mixed", {"long_share": 0}),
    ("mixed", {"short_scale": 0}),
    ("mixed", {"long_median": 0}),
    ("mixed", {"long_sigma": 0}),
    ("mixed", {"remap_lower": 50}),
    ("mixed", {"output_scale": 0}),
    ("two-point", {"n": 0}),
    ("two-point", {"upper": 1}),
    ("two-point", {"memory_limit": 19}),
    ("two-point", {"long_share": 1.5}),
    ("geometric", {"q": 0}),
    ("geometric", {"q": 1}),
    ("geometric", {"upper": 0}),
    ("linearly-weighted-geometric", {"prompt_length": -1}),
    ("a-max-trap", {"scale": 0}),
    ("lmsys-like", {"n": 0}),
    ("lmsys-like", {"arrival_rate": 0}),
    ("lmsys-like", {"arrival_rate": 1e-300}),
    ("lmsys-like", {"token_scale": 0}),
    ("lmsys-like", {"memory_limit": 1350}),
    *[("mixed-long-short", {"long_share": share}) for share in (0, 1, NAN)],
    ("mixed-long-short", {"memory_limit": 8189}),
    ("mc-sf-trap", {"memory_limit": 3}),
    ("mc-sf-trap", {"sizes": "steeper"}),
    ("mc-sf-total-trap", {"memory_limit": 3}),
    ("mc-sf-total-trap", {"sizes": 3}),
    ("identical-requests", {"n": 0}),
    ("identical-requests", {"prompt_length": 0}),
    ("identical-requests", {"memory_limit": 29}),
    ("two-point-worst-case", {"upper": 1}),
    ("two-point-worst-case", {"memory_limit": 7}),
    ("three-partition", {"groups": 0}),
    ("three-partition", {"target": 7}),
    ("three-partition", {"target": 8}),
    ("partition-makespan", {"n": 1}),
    ("partition-makespan", {"largest": 1, "n": 3}),
    ("fcfs-cascade", {"example": "three-types"}),
    ("fcfs-cascade", {"arrivals": "bursty"}),
    ("fcfs-cascade", {"convention": "other"}),
    ("fcfs-cascade", {"rounds": 0}),
    ("fcfs-cascade", {"imbalanced": True, "example": "two-types"}),
    ("sqrt-n-adversary", {"memory_limit": 3}),
]
NO_NUMBERS: list[tuple[str, dict[str, Any]]] = [
    *[("arrival-model-1", {"n": n}) for n in (2.0, True, "3")],
    ("arrival-model-2", {"memory_limit": 40.0}),
    ("normal", {"mean": "25"}),
    ("binomial", {"probability": True}),
    ("lmsys-like", {"arrival_rate": "1"}),
    ("mc-sf-trap", {"memory_limit": 16.0}),
    ("sqrt-n-adversary", {"memory_limit": math.pi}),
]


@pytest.mark.parametrize(
    ("name", "parameters", "error"),
    [
        *[(*case, InvalidValueError) for case in OUT_OF_RANGE],
        *[(*case, InvalidTypeError) for case in NO_NUMBERS],
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_bad_parameter_is_named(name: str, parameters: dict, error: type[Exception]) -> None:
    field = next(iter(parameters))
    with pytest.raises(error, match=f"^{field} = ") as caught:
        generate(name, **parameters)
    assert caught.value.field == field  # type: ignore[attr-defined]
