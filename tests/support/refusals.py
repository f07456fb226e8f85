"""Calls that are refused, one a row: the call and words of the message, by the error's type."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

Call = Callable[..., object]
Rows = list[tuple[Call, str]]
"""Words are a regular expression that is found in the message."""


def each(call: Call, words: str, *values: object) -> Rows:
    """A row for each value; ``{}`` in the words stands for the value as Python writes it."""
    told = [words.replace("{}", re.escape(repr(one))) if "{}" in words else words for one in values]
    return [(partial(call, one), said) for one, said in zip(values, told, strict=True)]


def every(words: str, *calls: Call) -> Rows:
    """A row for each call, all with the same words."""
    return [(call, words) for call in calls]


def refused(table: dict[type[Exception], Rows]) -> pytest.MarkDecorator:
    """Give a test every row of the table as its arguments ``error``, ``call`` and ``words``."""
    rows = [
        pytest.param(error, call, words, id=f"{error.__name__}: {ascii(words)[:50]}")
        for error, listed in table.items()
        for call, words in listed
    ]
    return pytest.mark.parametrize(("error", "call", "words"), rows)


def assert_refused(error: type[Exception], call: Call, words: str, *arguments: object) -> str:
    """Assert that the call raises the error with the words; return the message, in one line."""
    with pytest.raises(error, match=words) as caught:
        call(*arguments)
    message = str(caught.value)
    assert message.isprintable()
    return message
