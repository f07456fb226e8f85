"""[A25]'s count of rounds by hand: a prefill round holding s, then o rounds from s + 1 to s + o."""

from __future__ import annotations

import online
from instances import Instance, Request

EMPTY_PROMPTS = {"allow_zero_prompt_length": True}


def test_one_request_by_hand() -> None:
    run = online.simulate(Instance([Request(2, 5, 3)], 8), "mc-sf", prefill_rounds=1)
    assert run.memory_profile().tolist() == [0, 0, 0, 5, 6, 7, 8]
    assert run.completion_rounds.tolist() == [6]
    # The prefill round emits nothing: the first token comes with round 4.
    assert run.first_token_times.tolist() == [4]
    assert run.total_latency == 4
    # Four rounds that hold 5 .. 8 tokens, whatever they emit.
    assert run.schedule.instance == Instance([Request(2, 4, 4, 0)], 8, metadata=EMPTY_PROMPTS)
    assert run.schedule.start_times.tolist() == [2]
    assert run.schedule.memory_profile().tolist() == run.memory_profile().tolist()
