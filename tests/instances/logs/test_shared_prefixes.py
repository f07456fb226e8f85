"""Prompts without what other requests share: against token strings, and schedules of them."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_files import dynamo, lines
from trace_files import write

from instances import InvalidValueError, RequestLog, read_log
from instances.logs import shared_prefixes

Text = tuple[int, ...]


def drawn(rng: np.random.Generator, count: int, longest: int) -> list[tuple[Text, Text]]:
    """Prompts and outputs of few kinds of tokens; some prompts go on with a conversation."""
    found: list[tuple[Text, Text]] = []
    for _ in range(count):
        begin: Text = ()
        if found and rng.random() < 0.5:
            prompt, output = found[rng.integers(len(found))]
            begin = (prompt + output)[: rng.integers(longest)]
        more = rng.integers(2, size=rng.integers(1, longest - len(begin) + 1))
        found.append(((*begin, *more.tolist()), tuple(rng.integers(2, size=2).tolist())))
    return found


def hashes_of(prompt: Text, size: int, *, chained: bool) -> list[int]:
    """A number for each block, of its tokens or of all up to there."""
    ends = range(size, len(prompt) + size, size)
    texts = [prompt[0 if chained else end - size : end] for end in ends]
    return [int("1" + "".join(map(str, text)), 2) + 2**60 for text in texts]


def common(one: Text, other: Text) -> int:
    return next(
        (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


@pytest.mark.parametrize("chained", [True, False])
def test_no_request_supplies_more_and_whole_blocks_no_less(chained: bool) -> None:
    rng = np.random.default_rng(1)
    shortened = 0
    for _ in range(150):
        texts = drawn(rng, int(rng.integers(1, 6)), 12)
        size, grain = (int(one) for one in rng.integers(1, 5, 2))
        hashes = [hashes_of(prompt, size, chained=chained) for prompt, _ in texts]
        if rng.random() < 0.5:
            pairs = zip(hashes, texts, strict=True)
            hashes = [one[: len(prompt) // size] for one, (prompt, _) in pairs]
        prompts, outputs = ([len(text[part]) for text in texts] for part in (0, 1))
        found = shared_prefixes(hashes, size, prompts, outputs) // grain * grain
        plain = shared_prefixes(hashes, size, prompts, [0] * len(texts)) // size * size
        for i, (prompt, _) in enumerate(texts):
            others = [text for j, text in enumerate(texts) if j != i]
            same = max((common(prompt, sum(text, ())) for text in others), default=0)
            assert min(same, len(prompt) - 1) // grain * grain <= found[i] < len(prompt)
            # In blocks of the log, and without outputs, the log shows all that there is.
            same = max((common(prompt, text[0]) for text in others), default=0)
            assert plain[i] == min(same, len(prompt) - 1) // size * size
            shortened += found[i] > 0
    assert shortened > 100


def in_memory(texts: list[tuple[Text, Text]], ages: list[int]) -> int:
    """Entries that requests of these ages hold, what begins alike once; age 0 is not running."""
    running = [(i, *texts[i], age) for i, age in enumerate(ages) if age]
    prompts = {prompt[: k + 1] for _, prompt, _, _ in running for k in range(len(prompt) - 1)}
    written = {
        (prompt + output)[: len(prompt) + k]
        for _, prompt, output, age in running
        for k in range(age + 1)
    }
    return len(prompts - written) + sum(age + 1 for *_, age in running)


def optimum(
    texts: list[tuple[Text, Text]], arrivals: list[int], limit: int, shared: list[int] | None
) -> float:
    """The least total latency over all start times; what is held once, or shortened prompts."""
    outputs = [len(output) for _, output in texts]
    last = max(arrivals) + sum(outputs)
    best = np.inf
    for starts in itertools.product(*[range(first, last) for first in arrivals]):
        total = sum(s + o - a for s, o, a in zip(starts, outputs, arrivals, strict=True))
        if total >= best:
            continue
        for now in range(1, last + max(outputs) + 1):
            ages = [
                now - s if s < now <= s + o else 0 for s, o in zip(starts, outputs, strict=True)
            ]
            if shared is None:
                held = in_memory(texts, ages)
            else:
                held = sum(
                    len(p) - h + k for (p, _), h, k in zip(texts, shared, ages, strict=True) if k
                )
            if held > limit:
                break
        else:
            best = total
    return best


def test_the_shortened_optimum_is_below_every_schedule_that_shares() -> None:
    rng = np.random.default_rng(2)
    gained = wrong = 0
    for _ in range(80):
        texts = drawn(rng, 3, 6)
        arrivals = rng.integers(3, size=3).tolist()
        limit = max(len(prompt) + len(output) for prompt, output in texts) + int(rng.integers(3))
        hashes = [hashes_of(prompt, 2, chained=True) for prompt, _ in texts]
        prompts, outputs = ([len(text[part]) for text in texts] for part in (0, 1))
        found = shared_prefixes(hashes, 2, prompts, outputs)
        sharing = optimum(texts, arrivals, limit, None)
        # Without what other requests generated, or in blocks larger than the cache's, none holds.
        for few in (found // 2 * 2, shared_prefixes(hashes, 2, prompts, [0, 0, 0])):
            wrong += optimum(texts, arrivals, limit, few.tolist()) > sharing
        assert optimum(texts, arrivals, limit, found.tolist()) <= sharing
        whole = optimum(texts, arrivals, limit, [0, 0, 0])
        assert sharing <= whole
        gained += sharing < whole
    assert gained > 10
    assert wrong > 3


MOONCAKE = [
    {"timestamp": 0, "input_length": 1200, "output_length": 100, "hash_ids": [0, 1, 2]},
    {"timestamp": 30, "input_length": 1030, "output_length": 9, "hash_ids": [0, 3, 4]},
    {"timestamp": 20, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 5]},
    {"timestamp": 40, "input_length": 512, "output_length": 5, "hash_ids": [0]},
    {"timestamp": 50, "input_length": 1, "output_length": 5, "hash_ids": [6]},
    {"timestamp": 60, "input_length": 700, "output_length": 0, "hash_ids": [0, 7]},
]


def test_prefixes_that_requests_of_a_mooncake_log_share(tmp_path: Path) -> None:
    path = tmp_path / "moon.jsonl.gz"
    rows = sorted(MOONCAKE, key=lambda row: row["timestamp"])
    path.write_bytes(gzip.compress(lines(rows).encode()))
    log = read_log(path, shared_prefixes=True)
    assert read_log(path).shared_tokens is None
    # At 0, 20, 30, 40 and 50. After 1,200 tokens and 100 more the log of the first one ends, and
    # 1,500 may go on with it; the prompt of 512 keeps its last token.
    assert log.shared_tokens.tolist() == [1199, 1300, 1023, 511, 0]
    part = log.select(log.arrival_times >= 0.03)
    assert part.shared_tokens.tolist() == [1023, 511, 0]


def test_prefixes_that_requests_of_a_dynamo_log_share(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, dynamo()), shared_prefixes=True)
    assert (log.shared_tokens // 64 * 64).tolist() == [320, 384, 384, 64]
    assert log.prompt_lengths.tolist() == [374, 396, 879, 91]


def test_logs_without_hashes_or_with_other_ones(tmp_path: Path) -> None:
    def read(*records: dict[str, Any]) -> RequestLog:
        return read_log(write(tmp_path, lines(records)), shared_prefixes=True)

    first = MOONCAKE[0]
    other_sizes = [json.loads(row) for row in dynamo().splitlines()]
    other_sizes[2]["event"]["request"]["replay"]["trace_block_size"] = 16
    bad_hashes = (None, "x", [1], [1.5, 2, 3], [-1, 2, 3], [2**64, 1, 2], [True, 2, 3])
    logs = [read(first, {**first, "hash_ids": bad}) for bad in bad_hashes]
    for log, words in (
        *[(one, "do not fit 1200 tokens in blocks of 512") for one in logs],
        (read(*other_sizes), "block_size = [16, 64] is not a whole number"),
    ):
        assert log.shared_tokens is None
        assert words in str(log)
    with pytest.raises(InvalidValueError, match="block_size = 0"):
        shared_prefixes([], 0, [], [])
