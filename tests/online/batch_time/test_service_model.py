"""[A25]'s count of rounds: a prefill round holding s, then o rounds holding s + 1 .. s + o."""

from __future__ import annotations

import numpy as np
import pytest

import online
from instances import Instance, Request
from online import PREFILL_ROUND, TOKEN_PER_ROUND

EMPTY_PROMPTS = {"allow_zero_prompt_length": True}


def profile_by_definition(instance: Instance, starts: list[int], prefill: int) -> list[int]:
    last = max(t + q.output_length + prefill for t, q in zip(starts, instance, strict=True))
    held = [0] * (last + 1)
    for start, q in zip(starts, instance, strict=True):
        footprint = [q.prompt_length] * prefill
        footprint += [q.prompt_length + k for k in range(1, q.output_length + 1)]
        for age, tokens in enumerate(footprint, start=1):
            held[start + age] += tokens
    return held


def test_one_request_by_hand() -> None:
    run = online.simulate(Instance([Request(2, 5, 3)], 8), "mc-sf", service_model=PREFILL_ROUND)
    assert run.memory_profile().tolist() == [0, 0, 0, 5, 6, 7, 8]
    assert run.completion_rounds.tolist() == [6]
    # The prefill round emits nothing: the first token comes with round 4.
    assert run.first_token_times.tolist() == [4]
    assert run.total_latency == 4
    # Four rounds that hold 5 .. 8 tokens, whatever they emit.
    assert run.schedule.instance == Instance([Request(2, 4, 4, 0)], 8, metadata=EMPTY_PROMPTS)
    assert run.schedule.start_times.tolist() == [2]
    assert run.schedule.memory_profile().tolist() == run.memory_profile().tolist()


@pytest.mark.parametrize("policy", ["mc-sf", "fcfs"])
def test_mc_sf_with_prefill_rounds_against_a_plain_rendering(policy: str) -> None:
    for seed in range(80):
        rng = np.random.default_rng([9, seed])
        n = int(rng.integers(1, 9))
        limit = int(rng.integers(4, 20))
        prompts = [int(s) for s in rng.integers(1, min(limit, 6), n)]
        outputs = [int(rng.integers(1, limit - s + 1)) for s in prompts]
        arrivals = sorted(int(a) for a in rng.integers(0, (1, 12)[seed % 2], n))
        instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)
        starts: dict[int, int] = {}
        now = 0
        while len(starts) < n:
            queue = [i for i in range(n) if i not in starts and arrivals[i] <= now]
            if policy == "mc-sf":
                queue.sort(key=lambda i: (outputs[i], i))
            for i in queue:
                trial = {**starts, i: now}
                part = Instance([Request(0, prompts[j], outputs[j]) for j in trial], limit)
                later = profile_by_definition(part, list(trial.values()), 1)[now + 1 :]
                if max(later) > limit:
                    break
                starts = trial
            now += 1
        run = online.simulate(instance, policy, service_model=PREFILL_ROUND)
        expected = [starts[i] for i in range(n)]
        assert run.start_rounds.tolist() == expected, seed
        assert run.memory_profile().tolist() == profile_by_definition(instance, expected, 1)
        assert run.completion_rounds.tolist() == [
            t + o + 1 for t, o in zip(expected, outputs, strict=True)
        ]
        assert run.total_latency == sum(run.completion_rounds.tolist()) - sum(arrivals)


def test_tokens_generated() -> None:
    assert [TOKEN_PER_ROUND.tokens_generated(k) for k in range(4)] == [0, 1, 2, 3]
    assert [PREFILL_ROUND.tokens_generated(k) for k in range(4)] == [0, 0, 1, 2]
    assert PREFILL_ROUND.rounds(3) == 4
    assert PREFILL_ROUND.base(5) + 1 == 5
