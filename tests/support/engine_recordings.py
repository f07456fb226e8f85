"""Decisions recorded from an engine's own scheduler, played again by the policy of its name.

A recording is of vLLM, or of SGLang where its ``engine`` says so. It is a workload,
the settings of the engine, and a row for each of its steps: who
processed how many tokens, who was preempted, who emitted a token, and how many blocks were in use.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from instances import Instance, MemoryRule
from online import Decision, Prediction, Run, simulate
from online.policies.engines.sglang import SGLang
from online.policies.engines.vllm import VLLM
from online.policy_interface import Setup, State, VisibleRequest
from online.policy_interface.predictions import PredictionModel

SETTINGS = ("max_num_batched_tokens", "max_num_seqs", "watermark", "prefix_caching")
FURTHER_SETTINGS = (
    "long_prefill_token_threshold",
    "long_prefill_token_threshold_adaptive",
    "enable_chunked_prefill",
    "prefill_schedule_interval",
    "scheduler_reserve_full_isl",
    "policy",
    "order",
)
"""Parameters of the policy that a recording has where they are not the defaults; its requests have
the priorities that make ``order``."""


class Step(NamedTuple):
    """Actions of the engine in a step; requests by their place in the recording.

    Attributes
    ----------
    scheduled : list[tuple[int, int]]
        Request and tokens, in the order in which they were scheduled.
    preempted : list[int]
        In ascending order.
    emitted : list[int]
        In the order in which they were scheduled.
    blocks : int
        In use once the step is planned, those of finished requests that are not free yet included.
    """

    scheduled: list[tuple[int, int]]
    preempted: list[int]
    emitted: list[int]
    blocks: int

    def in_any_order(self) -> Step:
        """Return the step with its requests in ascending order."""
        return self._replace(scheduled=sorted(self.scheduled), emitted=sorted(self.emitted))


NOTHING = Step([], [], [], 0)


class Announced:
    """Longest outputs as clients announce them, in order of arrival.

    Parameters
    ----------
    longest : Sequence[int]
        Tokens.
    """

    def __init__(self, longest: Sequence[int]) -> None:
        self.longest = longest
        self._next = 0

    def predict(
        self, prompt_length: int, output_length: int, rng: np.random.Generator
    ) -> Prediction:
        """Return an interval up to the length announced, its point as well."""
        longest = self.longest[self._next % len(self.longest)]
        self._next += 1
        return Prediction(1, longest, longest)


@dataclass(frozen=True)
class Recording:
    """A recorded run of the engine.

    Attributes
    ----------
    name, seed : str
        What tables call it.
    instance : Instance
        The workload, under the engine's memory rule; a round is a step.
    settings : Mapping[str, Any]
        Parameters of the policy.
    steps : Mapping[int, Step]
        By index, from 0.
    policy : type[VLLM] | type[SGLang], default VLLM
        The policy of the engine.
    predictions : PredictionModel or None, default None
        What the engine is told of the output lengths; None for the lengths themselves.
    """

    name: str
    seed: str
    instance: Instance
    settings: Mapping[str, Any]
    steps: Mapping[int, Step]
    policy: type[VLLM] | type[SGLang] = VLLM
    predictions: PredictionModel | None = None


def read_recordings(path: Path) -> list[Recording]:
    """Read the recordings in a JSON file, plain or compressed with gzip."""
    packed = path.read_bytes()
    text = gzip.decompress(packed) if path.suffix == ".gz" else packed
    return [recording_of(entry) for entry in json.loads(text)]


def recording_of(entry: Mapping[str, Any]) -> Recording:
    """Make a recording of what JSON has of it."""
    of_sglang = str(entry.get("engine", "")).startswith("sglang ")
    size = entry["page_size" if of_sglang else "block_size"]
    instance = Instance.from_arrays(
        entry["prompt_lengths"],
        entry["output_lengths"],
        entry["arrival_steps"],
        memory_limit=entry["max_total_tokens"] if of_sglang else entry["num_blocks"] * size,
        memory_rule=MemoryRule(size, "next", "chunks"),
    )
    predictions = None
    if of_sglang:
        in_order = np.argsort(instance.arrival_times, kind="stable").tolist()
        predictions = Announced([entry["max_new_tokens"][i] for i in in_order])
    policy, settings = _sglang_settings(entry) if of_sglang else _vllm_settings(entry)
    steps: dict[int, Step] = {}
    for index, scheduled, preempted, emitted, blocks in entry["steps"]:
        pairs = [(request, tokens) for request, tokens in scheduled]
        step = Step(pairs, sorted(preempted), emitted, blocks)
        steps[index] = step.in_any_order() if of_sglang else step
    seed = str(entry["seed"])
    return Recording(entry["name"], seed, instance, settings, steps, policy, predictions)


def _vllm_settings(entry: Mapping[str, Any]) -> tuple[type[VLLM], dict[str, Any]]:
    settings = {name: entry[name] for name in SETTINGS}
    settings |= {name: entry[name] for name in FURTHER_SETTINGS if name in entry}
    return VLLM, {**settings, "asynchronous": entry["async_scheduling"]}


def _sglang_settings(entry: Mapping[str, Any]) -> tuple[type[SGLang], dict[str, Any]]:
    orders = {"lof": "longest-output", "lpm": "fcfs"}
    same = (
        "chunked_prefill_size",
        "max_prefill_tokens",
        "max_running_requests",
        "schedule_conservativeness",
        "ignore_eos",
        "enable_mixed_chunk",
        "disable_radix_cache",
    )
    queue = entry["schedule_policy"]
    return SGLang, {"order": orders.get(queue, queue), **{name: entry[name] for name in same}}


class _Watched(VLLM):
    """The policy, asked before every step, with what it planned in each."""

    planned: dict[int, Step]

    def reset(self, setup: Setup) -> None:
        super().reset(setup)
        self.blocks = self._pool.free

    def _carry_out(self, now: int) -> None:
        self.blocks_planned = self.blocks - self._pool.free
        super()._carry_out(now)

    def decide(self, state: State) -> Decision:
        decision = super().decide(state)
        emitting = [index for index in self.scheduled if index not in decision.prefill]
        self.planned[state.round_index] = Step(
            list(self.scheduled.items()), sorted(self.preempted), emitting, self.blocks_planned
        )
        return replace(decision, wake=state.round_index + 1)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        super().complete(requests, state)
        # The step after the last one, where nothing is left to ask the policy about.
        self.planned[state.round_index] = Step([], [], [], self.blocks - self._pool.free)


class _WatchedSGLang(SGLang):
    """The policy, asked before every step, with what it planned in each."""

    planned: dict[int, Step]
    processed: dict[int, int]

    def decide(self, state: State) -> Decision:
        decision = super().decide(state)
        if not self.planned:
            self.processed = {}
        gone = {*decision.preempt, *decision.hold}
        scheduled = {i: one.prompt_left or 1 for i, one in state.running.items() if i not in gone}
        scheduled |= {index: self._prompt(index) for index in decision.start}
        scheduled |= decision.prefill
        for index in decision.preempt:
            del self.processed[index]
        for index, tokens in scheduled.items():
            self.processed[index] = self.processed.get(index, 0) + tokens
        blocks = sum(map(self._rule.blocks, self.processed.values()))
        emitting = [index for index in scheduled if index not in decision.prefill]
        self.planned[state.round_index] = Step(
            list(scheduled.items()), list(decision.preempt), emitting, blocks
        )
        return replace(decision, wake=state.round_index + 1)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        super().complete(requests, state)
        for request in requests:
            del self.processed[request.index]


@dataclass(frozen=True)
class Replay:
    """A recording played again.

    Attributes
    ----------
    recording : Recording
        What was recorded.
    steps : Mapping[int, Step]
        What the policy did, by step.
    run : Run
        The run of the policy as anybody would run it, asked only where something may change; where
        a step differs, the one that was watched, which ends where the recording does.
    difference : str or None
        The first step that differs, and how.
    """

    recording: Recording
    steps: Mapping[int, Step]
    run: Run
    difference: str | None


def play(recording: Recording) -> Replay:
    """Run the policy on the workload of a recording, and compare step by step."""
    instance = recording.instance
    watching = _Watched if recording.policy is VLLM else _WatchedSGLang
    policy = watching(**recording.settings)
    policy.planned = {}

    def is_another() -> bool:
        # A workload may be far longer than what is recorded of it.
        if not policy.planned:
            return False
        index, step = next(reversed(policy.planned.items()))
        return bool(step.scheduled) and index not in recording.steps

    told = recording.predictions
    watched = simulate(instance, policy, predictions=told, should_stop=is_another)
    order = np.argsort(instance.arrival_times, kind="stable").tolist()
    emitted: dict[int, set[int]] | None = None
    if watched.status == "completed":
        emitted = {}
        for owner, r in zip(*(column.tolist() for column in watched.token_rounds), strict=True):
            emitted.setdefault(r - 1, set()).add(owner)
    steps = {}
    for index, step in policy.planned.items():
        scheduled = [(order[i], tokens) for i, tokens in step.scheduled]
        steps[index] = Step(
            scheduled,
            sorted(order[i] for i in step.preempted),
            [order[i] for i in step.emitted]
            if emitted is None
            else [i for i, _ in scheduled if i in emitted.get(index, ())],
            step.blocks,
        )
        if recording.policy is SGLang:
            steps[index] = steps[index].in_any_order()
    difference = _difference(recording.steps, steps)
    if difference is None and watched.status != "completed":
        difference = f"the policy's run ended as {watched.status}"
    own = recording.policy(**recording.settings)
    run = watched if difference else simulate(instance, own, predictions=told)
    if difference is None and not _same(run, watched):
        difference = "the policy's run is another where it is asked before every step"
    return Replay(recording, steps, run, difference)


def _difference(recorded: Mapping[int, Step], played: Mapping[int, Step]) -> str | None:
    for index in sorted({*recorded, *(i for i, step in played.items() if step != NOTHING)}):
        mine, theirs = played.get(index, NOTHING), recorded.get(index)
        if theirs is None:
            return f"step {index} is not recorded, and the policy schedules {mine.scheduled}"
        for name, ours, wanted in zip(Step._fields, mine, theirs, strict=True):
            if ours != wanted:
                return f"step {index}, {name}: recorded {wanted}, played {ours}"
    return None


def _same(run: Run, other: Run) -> bool:
    return all(
        np.array_equal(getattr(run.attempts, name), getattr(other.attempts, name))
        for name in ("request", "start_round", "end_round", "tokens_kept", "tokens_reused")
    ) and np.array_equal(run.memory_profile(), other.memory_profile())
