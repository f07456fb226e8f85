"""What the parts of a declaration are held against."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from instances import InvalidTypeError, InvalidValueError
from instances.validation import as_integer

MOST_TRIALS = 1_000_000
"""Of an experiment: all are listed before the first is run."""


def canonical(value: Any) -> str:
    """JSON of which there is only one: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_json(owner: str, parameters: Mapping[str, Any]) -> None:
    """Parameters become part of a key, so they must survive JSON.

    Raises
    ------
    InvalidTypeError
        One that does not.
    """
    for key, value in parameters.items():
        try:
            canonical(value)
        except (TypeError, ValueError):
            raise InvalidTypeError(owner, key, value, "is not a JSON value") from None


def checked_seeds(owner: str, name: str, seeds: Iterable[int]) -> tuple[int, ...]:
    """Seeds as a tuple.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        None, one twice, or one that is no whole number >= 0.
    """
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise InvalidTypeError(owner, name, seeds, "is not a list of whole numbers")
    found = tuple(
        as_integer(seed, owner, name, minimum=0) for seed in islice(seeds, MOST_TRIALS + 1)
    )
    if not found:
        raise InvalidValueError(owner, name, [], "is empty: at least one is needed")
    if len(found) > MOST_TRIALS:
        raise InvalidValueError(owner, name, seeds, f"are more than {MOST_TRIALS}")
    refuse_repeats(owner, name, found)
    return found


def check_trials(owner: str, number: int) -> None:
    """Refuse an experiment that could not even be listed.

    Raises
    ------
    InvalidValueError
        More trials than `MOST_TRIALS`.
    """
    if number > MOST_TRIALS:
        raise InvalidValueError(owner, "trials", number, f"are more than {MOST_TRIALS}")


Item = TypeVar("Item", bound=Hashable)


def refuse_repeats(owner: str, name: str, items: Iterable[Item]) -> None:
    """Refuse what comes twice.

    Raises
    ------
    InvalidValueError
        Naming the first that does.
    """
    seen: set[Item] = set()
    for item in items:
        if item in seen:
            raise InvalidValueError(owner, name, item, "is given twice")
        seen.add(item)
