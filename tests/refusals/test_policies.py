"""Policies, predictions and routers that are refused, and decisions that a run refuses."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from refusals import Rows, assert_refused, each, refused
from scripted import Scripted, start_all

import online
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    Request,
    ServiceLevel,
    UnknownNameError,
    Workload,
)
from instances.problem.arrival_source import Arrival
from online import (
    AffineTime,
    BucketPredictions,
    Decision,
    IntervalPredictions,
    KnowledgeError,
    NoisyPredictions,
    PolicyError,
    Prediction,
    ProportionalPredictions,
    RelativePredictions,
    make_policy,
    simulate,
)
from online.policy_interface.router import RouterError

NAN, INFINITE = float("nan"), float("inf")
RNG = np.random.default_rng(0)
SECOND = AffineTime(1.0)
VLLM = MemoryRule(16, "next", "chunks")
TINY = Instance.from_arrays([1, 1], [1, 2], memory_limit=5)
TWO = Instance([Request(0, 1, 3, "first"), Request(0, 1, 3, "second")], 4)
ALIKE = Instance.from_arrays([3, 3, 3], [2, 2, 2], memory_limit=5)
PROMPTS = Instance.from_arrays([4, 4], [1, 1], memory_limit=9)
FLEET = Instance.from_arrays([2] * 3, [3] * 3, memory_limit=20, replicas=2)
BLOCKS = Instance.from_arrays([5, 1], [1, 4], memory_limit=11, memory_rule=MemoryRule(4, "next"))
PAGED = Instance.from_arrays([5], [3], memory_limit=32, memory_rule=VLLM)
WORK = Workload([0.0], [2], [9], memory_limit=40)
WHOLE = Workload([0.0], [20], [2], memory_limit=64, memory_rule=MemoryRule(16, "next", "whole"))
UNEVEN = Instance.from_arrays([8, 9], [1, 1], memory_limit=32)
CROWD = Instance.from_arrays([1, 1], [3, 3], memory_limit=5)
ENGINES = ("vllm", "mc-sf", "sglang", "tensorrt-llm")
SHORT_CHUNKS = make_policy("sglang", chunked_prefill_size=15)
UNCUT = make_policy("vllm", max_num_batched_tokens=8, enable_chunked_prefill=False)
PARAMETERS: dict[str, dict[str, list[Any]]] = {
    "vllm": {"policy": ["lifo"], "watermark": [1.0], "max_num_batched_tokens": [0]}
    | {"max_num_seqs": [0], "long_prefill_token_threshold": [-1]}
    | {"prefill_schedule_interval": [0]},
    "vllm-v0": {"max_num_seqs": [0], "max_num_batched_tokens": [0], "watermark": [1.0]},
    "sarathi": {"preemption": ["swap"], "chunk_size": [0]} | {"ageing": [-1, INFINITE]},
    "sglang": {"chunked_prefill_size": [0], "max_prefill_tokens": [0], "max_new_tokens": [0]}
    | {"max_running_requests": [0], "schedule_conservativeness": [0]},
    "tensorrt-llm": {"capacity_scheduler_policy": ["max_utilization"], "max_batch_size": [0]}
    | {"max_num_tokens": [0]},
    "alpha-protection": {"alpha": [1, -0.1]},
    "alpha-beta-clearing": {"beta": [0]},
    "sorted-f-quantile": {"share": [1.5]},
}
NO_ORDER = None, NAN, "1", (1, None), (1, (2,)), [1], 1j, Decimal(1)
TYPED_PARAMETERS: dict[str, dict[str, list[Any]]] = {
    "vllm": {"scheduler_reserve_full_isl": [1]},
    "sarathi": {"watermark": ["0.1"], "ageing": ["1"]},
    "gba": {"factor": ["2"]},
}


class Told(online.Router):
    """Sends requests where it is told."""

    def __init__(self, *choices: Any, draws: bool = False) -> None:
        super().__init__(0.1)
        self.choices, self.draws = choices, draws

    def reset(self, setup: Any) -> None:
        if self.draws:
            setup.rng.random()

    def route(self, request: Any, replicas: Any) -> int:
        return self.choices[request.index]


class Source:
    """An arrival source that hands over what it is given and checks nothing."""

    name, adaptive, memory_limit = None, True, 12

    def __init__(self, *batches: list[Arrival], **attributes: Any) -> None:
        self.batches = batches
        vars(self).update(attributes)

    def reset(self, rng: np.random.Generator) -> None:
        self.left = list(self.batches)

    def next_arrival(self) -> float | None:
        return self.left[0][0].time if self.left else None

    def release(self, now: float) -> list[Arrival]:
        return self.left.pop(0) if self.left and self.left[0][0].time <= now else []

    def observe(self, observation: object) -> None: ...


def released(*batches: list[Arrival], **attributes: Any) -> Callable[[], Any]:
    return lambda: simulate(Source(*batches, **attributes), Scripted(start_all))


class ByTable(online.PriorityPolicy):
    """Gives the second request the priority it is told."""

    name = "by-table"

    def __init__(self, second: Any) -> None:
        self.second = second

    def priority(self, request: Any) -> Any:
        return self.second if request.index else 1.5


def decides(instance: Instance = TWO, **decision: Any) -> Callable[[], Any]:
    """Simulate a policy that decides this in every round."""
    return lambda: simulate(instance, Scripted(lambda policy, state: Decision(**decision)))


def scripted(rule: Any, instance: Instance = TWO, **options: Any) -> Callable[[], Any]:
    return lambda: simulate(instance, Scripted(rule, **options))


def again(policy: Any, state: Any) -> Decision:
    """Start the first request in every round."""
    return Decision(start=[0], wake=state.round_index + 1)


def reuse_three(policy: Any, state: Any) -> Decision:
    """Start all with three tokens found again."""
    return Decision(start=list(policy.waiting), reuse=dict.fromkeys(policy.waiting, 3))


def shortest(policy: Any, state: Any) -> Decision:
    """Start the request with the least output, which is not told."""
    return Decision(start=[min(policy.seen, key=lambda request: request.output_length).index])


def parameters(table: dict[str, dict[str, list[Any]]]) -> Rows:
    return [
        (partial(make_policy, name, **{field: value}), f"{field} = {value!r}")
        for name, fields in table.items()
        for field, values in fields.items()
        for value in values
    ]


def waiting(thresholds: Any) -> Any:
    return make_policy("wait", thresholds=thresholds)


def nested(thresholds: Any) -> Any:
    return make_policy("nested-wait", thresholds=thresholds)


def segmented(thresholds: Any, ends: Any) -> Any:
    return make_policy("nested-wait", thresholds=thresholds, segment_ends=ends)


def routed(*choices: Any, **options: Any) -> Any:
    return simulate(FLEET, "mc-sf", router=Told(*choices, **options))


def leveled(level: Any) -> Any:
    return simulate(ALIKE, "edf", level=level)


def prioritized(priority: Any) -> Any:
    return simulate(TINY, ByTable(priority))


def uncertain(policy: Any) -> Any:
    return simulate(TINY, policy, predictions=IntervalPredictions(1, 4))


def timed(clock: Any) -> Any:
    return simulate(WORK.replaced(batch_time=clock), "mc-sf")


VALUES: Rows = [
    (lambda: make_policy("sarathi", order="sjf"), "order = 'sjf' is not one of fcfs, shortest"),
    *parameters(PARAMETERS),
    *each(waiting, "'wait'.* = 0 is below 1", 0, {(1, 1): 0}, {(0, 1): 1}),
    *each(waiting, "'wait': thresholds = {} is empty", {}),
    *each(nested, "'nested-wait': thresholds = .* is empty", []),
    (lambda: segmented([1, 0], [2]), "'nested-wait': thresholds = 0 is below 1"),
    (lambda: segmented([2, 1], [4, 4]), "'nested-wait': segment_ends = 4 is below 5"),
    # Runs.
    (lambda: simulate(ALIKE, "edf"), "deadline = None is not known"),
    (lambda: leveled([ServiceLevel(latency=1)] * 2), "differs from the number of requests, 3"),
    (lambda: simulate(FLEET, "mc-sf"), "router = None is needed for 2 replicas"),
    (lambda: simulate(WORK, "vllm"), r"batch_time = None is not known: give it as replaced"),
    *each(lambda name: simulate(PAGED, name, prefill_rounds=1), "= 1 is not 0", *ENGINES),
    (
        lambda: simulate(WHOLE.replaced(batch_time=SECOND), SHORT_CHUNKS),
        "= 15 is below a block of 16",
    ),
    # Sources of arrivals.
    (released([Arrival(0, 2, 3, "x"), Arrival(0, 9, 9, "whale")]), "whale.*18"),
    *[(released([Arrival(0, *bad)]), "length") for bad in ((-1, 3), (2, 0))],
    (released([Arrival(3, 1, 1), Arrival(2, 1, 1, "bad")]), "'bad': .* time = 2 is out of order"),
    # Predictions.
    (lambda: IntervalPredictions(2, 5).predict(3, 6, RNG), "outside"),
    (lambda: IntervalPredictions(0, 3), "lower = 0 is below 1"),
    (lambda: BucketPredictions((3, 3)), "upper_ends = .* do not grow"),
    *each(ProportionalPredictions, "spread = {}", 1, -0.1),
    (lambda: NoisyPredictions(1, wrong=2), "wrong = 2 is above 1"),
    (lambda: RelativePredictions(11), "error = 11 is above 10"),
    *[(partial(Prediction, *bad), "prediction") for bad in ((0, 1, 2), (3, 2, 4), (1, 5, 4))],
    # Routers and the test kit.
    *each(routed, "router 'Told', request 0: replica = {}", 2, -1),
    (lambda: simulate(UNEVEN, UNCUT), "is less than the 9 tokens of request 1, which"),
]
TYPES: Rows = [
    (released([Arrival(0, 1.5, 2)]), "length"),  # type: ignore[arg-type]
    (released(batch_time=0.5), "batch_time = 0.5 is not a batch time"),
    (lambda: simulate(Source(replicas=2), "mc-sf", router="random"), "source has one replica"),
    *parameters(TYPED_PARAMETERS),
    *each(waiting, "'wait': thresholds = 5 is not a pair", {5: 1}),
    *each(waiting, r"'wait', type \(1, 1\): threshold = 1.5", {(1, 1): 1.5}),
    *each(leveled, "is neither a ServiceLevel nor a list of them", [1, 2, 3]),
    *each(timed, r"preset\(name\)\.batch_time", "llama-2-70b-2xa100", AffineTime),
    (lambda: simulate("mc-sf", "mc-sf"), "^arrivals = .* is not a"),
    *each(lambda given: simulate(TINY, "fcfs", predictions=given), "predictions = .* is not ", "x"),
    (lambda: ProportionalPredictions("0.5"), "spread"),
    *each(routed, "router 'Told', request 0: replica = {}", None),
    *each(make_policy, "policy = None is not a policy", None),
]
UNKNOWN: Rows = [(lambda: make_policy("sjf"), "unknown policy 'sjf'")]
DECISIONS: Rows = [
    (decides(start=[0, 0]), "scripted.*round 1.*'first'"),
    (decides(start=[0], evict=[1]), "scripted.*round 1.*'second'"),
    (decides(PROMPTS, start=[0], prefill={0: 2}, hold=[0]), "1.*allotted prompt tokens and held"),
    (scripted(start_all, CROWD), "round 2: the batch holds 6 tokens, 1 above"),
    (scripted(start_all, BLOCKS), "12 tokens, 4 above the 8 tokens in blocks of 4"),
    (scripted(reuse_three, ALIKE), "to reuse 3 tokens of 0 processed before"),
    *each(prioritized, "^policy 'by-table', round 1: .* request 1 is {}, not a number", *NO_ORDER),
    (decides(PROMPTS, start=[0], prefill={0: -1}), "1.*allotted -1 prompt tokens and has 4 left"),
]
TRUTH: Rows = [
    *each(lambda name: uncertain(name), "only known to lie in", "h-sf", "a-random"),
    (lambda: uncertain(Scripted(shortest)), r"request 0.*\[1, 4\]"),
]
ROUTERS: Rows = [
    (routed, "router 'Told', request 0: IndexError"),
    (lambda: routed(*[0] * len(FLEET), draws=True), "router 'Told' draws from Setup.rng"),
]
TABLE = {InvalidValueError: VALUES, InvalidTypeError: TYPES, PolicyError: DECISIONS}


@refused({**TABLE, KnowledgeError: TRUTH, RouterError: ROUTERS, UnknownNameError: UNKNOWN})
def test_bad_policies_and_decisions_are_refused(
    error: type[Exception], call: Any, words: str
) -> None:
    assert_refused(error, call, words)
