"""How much of a random test is run: the whole in `make test-all`, a part of it in `make test`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

ENOUGH = 10


def examples(full: int, brief: int | None = None) -> int:
    """How many examples hypothesis tries where the profile "full" has ``full`` of them.

    A profile of fewer takes its part of ``brief``, where that is given.
    """
    part = settings.default.max_examples
    if brief is not None and part < 100:
        full = brief
    return max(min(full, ENOUGH), full * part // 100)


def behind(values: Iterable[Any], first: int) -> list[Any]:
    """Parameters of which the first few are run by default and those behind them are slow."""
    slow = pytest.mark.slow
    return [pytest.param(x, marks=slow) if k >= first else x for k, x in enumerate(values)]


def sweep(values: Iterable[Any], one_in: int = 4) -> list[Any]:
    """Parameters of which one in ``one_in`` is run by default and the others are slow.

    The profile "quick" does not collect the others: there are thousands of them.
    """
    chosen = list(values)
    if settings.default.max_examples < 100:
        return chosen[::one_in]
    slow = pytest.mark.slow
    return [pytest.param(x, marks=slow) if k % one_in else x for k, x in enumerate(chosen)]
