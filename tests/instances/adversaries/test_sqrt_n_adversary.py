"""The adaptive adversary of [J25] Theorem 4.1, heard and answered by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import InvalidValueError, generate
from instances.adversaries.sqrt_n_adversary import half_root
from instances.problem.arrival_source import ArrivalSource, Observation


def fresh(memory_limit: int = 16) -> ArrivalSource:
    source = generate("sqrt-n-adversary", memory_limit=memory_limit)
    assert isinstance(source, ArrivalSource)
    source.reset(np.random.default_rng(0))
    return source


@given(st.integers(1, 10**12))
def test_half_the_root_is_rounded_up_exactly(memory_limit: int) -> None:
    half = half_root(memory_limit)
    assert 4 * half**2 >= memory_limit > 4 * (half - 1) ** 2


def test_the_requests_of_the_proof() -> None:
    # M = 16: sqrt(M)/2 = 2, so a start at b = 5 is answered at 5 + 16 - 2 = 19 with 8 requests.
    source = fresh()
    assert source.adaptive
    assert source.next_arrival() == 0
    (long,) = source.release(0)
    assert (long.time, long.prompt_length, long.output_length) == (0, 1, 15)
    assert source.next_arrival() is None
    source.observe(Observation(5, 5, started=(long.id,)))
    assert source.next_arrival() == 19
    assert list(source.release(18)) == []
    shorts = source.release(19)
    assert [(a.time, a.prompt_length, a.output_length) for a in shorts] == [(19, 1, 1)] * 8
    assert source.next_arrival() is None
    assert list(source.release(100)) == []
    odd = fresh(17)
    odd.release(0)
    odd.observe(Observation(3, 3, started=("long",)))
    assert odd.next_arrival() == 3 + 17 - 3
    assert len(odd.release(17)) == 8


def test_an_evicted_long_request_is_answered_at_its_next_start() -> None:
    source = fresh()
    source.release(0)
    source.observe(Observation(0, 0, started=("other",), evicted=("another",)))
    assert source.next_arrival() is None
    source.observe(Observation(1, 1, started=("long",)))
    source.observe(Observation(4, 4, evicted=("long",)))
    assert source.next_arrival() is None
    source.observe(Observation(6, 6, started=("long",)))
    assert source.next_arrival() == 6 + 16 - 2
    source.observe(Observation(8, 8, started=("long",), evicted=("long",)))
    assert source.next_arrival() == 8 + 16 - 2


def test_a_reset_begins_again() -> None:
    source = fresh()
    source.release(0)
    source.observe(Observation(0, 0, started=("long",)))
    source.release(14)
    source.reset(np.random.default_rng(0))
    assert source.next_arrival() == 0
    assert len(source.release(0)) == 1
    assert source.next_arrival() is None


def test_a_clock_in_seconds_is_refused() -> None:
    source = fresh()
    source.release(0)
    with pytest.raises(InvalidValueError, match=r"time = 0\.5"):
        source.observe(Observation(1, 0.5, started=("long",)))
