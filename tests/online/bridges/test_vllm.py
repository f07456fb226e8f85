"""Policies that lead vLLM, and the log of its requests, against a stand-in for the engine."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import fake_vllm
import numpy as np
import pytest
from fake_vllm import Reason, Request, configuration
from machine_steps import watched

import online
from instances import (
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    ServiceLevel,
    Workload,
    read_log,
)

SIZE = 16
LEVEL, TIME = ServiceLevel(latency=90), online.AffineTime(1.0)


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    fake_vllm.install(monkeypatch)
    yield importlib.import_module("online.bridges.vllm")
    for name in fake_vllm.USERS:
        sys.modules.pop(name, None)


class Server:
    """An engine's loop: a step a unit of time."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler, self.now, self.steps = scheduler, 0, []
        scheduler.clock, scheduler._begun = lambda: float(self.now), 0.0

    def step(self) -> dict[str, int]:
        output = self.scheduler.schedule()
        self.scheduler.update_from_output(output, None)
        self.now += 1
        if output.num_scheduled_tokens:
            self.steps.append(output.num_scheduled_tokens)
        return output.num_scheduled_tokens

    def serve(self, most: int = 500) -> None:
        for _ in range(most):
            if not self.scheduler.requests:
                return
            self.step()
        raise AssertionError(f"after {most} steps: {list(self.scheduler.requests)} are left")


def led(bridge: ModuleType, policy: Any, blocks: int = 12, **options: Any) -> Server:
    """A server led by a policy: a text, or a class."""
    text = policy if isinstance(policy, str) else "fcfs"
    scheduler = bridge.PolicyScheduler(configuration(blocks, SIZE, policy=text, **options))
    if not isinstance(policy, str):
        patience = options.get("patience", 1.0)
        scheduler.lead = bridge.Lead(policy(), blocks, SIZE, patience=patience)
    return Server(scheduler)


def add(server: Server, *lengths: tuple[int, int]) -> list[Request]:
    """Send requests, called by their place."""
    count = len(server.scheduler.requests)
    requests = [Request(str(count + k), *pair) for k, pair in enumerate(lengths)]
    for request in requests:
        server.scheduler.add_request(request)
    return requests


@pytest.mark.parametrize(
    "policy",
    [
        "mc-sf",
        "fcfs",
        "a-min",
        "a-random",
        "sglang",
        "vllm:asynchronous=False,prefix_caching=False",
        "sarathi:preemption=recompute,watermark=0,chunk_size=24",
        "edf",
    ],
)
def test_the_engine_takes_the_steps_of_the_simulation(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    prompts, outputs = rng.integers(3, 70, 40).tolist(), rng.integers(1, 40, 40).tolist()
    arrivals = np.sort(rng.integers(0, 160, 40)).tolist()
    workload = Workload(
        [float(time) for time in arrivals],
        prompts,
        outputs,
        memory_limit=12 * SIZE,
        memory_rule=MemoryRule(SIZE, "next", "chunks"),
        batch_time=TIME,
    )
    expected: list[dict[int, int]] = []
    with watched(expected):
        online.simulate(workload, policy, level=LEVEL)
    with monkeypatch.context() as patch:
        fake_vllm.install(patch)
        bridge = importlib.import_module("online.bridges.vllm")
        server = led(bridge, "fcfs")
        lead = bridge.Lead(online.make_policy(policy), 12, SIZE, level=LEVEL, batch_time=TIME)
        server.scheduler.lead = lead
        sent = 0
        while sent < 40 or server.scheduler.requests:
            if not server.scheduler.requests:
                server.now = max(server.now, arrivals[sent])
            while sent < 40 and arrivals[sent] <= server.now:
                request = Request(str(sent), prompts[sent], outputs[sent])
                server.scheduler.add_request(request)
                sent += 1
            lead.patience = np.inf if sent < 40 else 0.0
            server.step()
    assert server.scheduler.lead is lead
    assert [{int(name): n for name, n in step.items()} for step in server.steps] == expected


class Greedy(online.Policy):
    """Starts all that wait, whatever fits; notes what it is told."""

    def reset(self, setup: online.Setup) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.queue: list[int] = []

    def arrive(self, requests: Sequence[Any], state: online.State) -> None:
        self.told.append(("arrive", [request.id for request in requests]))
        self.queue += [request.index for request in requests]

    def complete(self, requests: Sequence[Any], state: online.State) -> None:
        self.told.append(("complete", [request.id for request in requests]))

    def decide(self, state: online.State) -> online.Decision:
        start, self.queue = self.queue, []
        return online.Decision(start=start)


def failing(where: str, error: BaseException) -> type[online.Policy]:
    """A policy that raises in one of its methods once it has seen three requests."""

    def fail(self: Any, *arguments: Any) -> Any:
        if where == "complete" or len(self.seen) >= 3:
            raise error
        return getattr(Greedy, where)(self, *arguments)

    def arrive(self: Any, requests: Any, state: Any) -> None:
        self.seen = [*getattr(self, "seen", []), *requests]
        (fail if where == "arrive" else Greedy.arrive)(self, requests, state)

    return type("Failing", (Greedy,), {where: fail, "arrive": arrive})


@pytest.mark.parametrize("where", ["arrive", "complete", "decide"])
@pytest.mark.parametrize("error", [KeyError("lost"), SystemExit(3), RecursionError()], ids=repr)
def test_a_policy_that_raises_leaves_the_engine_serving(
    bridge: ModuleType, caplog: pytest.LogCaptureFixture, where: str, error: BaseException
) -> None:
    server = led(bridge, failing(where, error))
    first = add(server, (20, 3), (20, 3))
    server.step()
    more = add(server, (20, 3), (20, 3))
    server.serve()
    last = add(server, (30, 2))
    server.serve()
    assert [one.num_output_tokens for one in [*first, *more, *last]] == [3, 3, 3, 3, 2]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "leads no more" in record.getMessage()
    assert type(error).__name__ in record.getMessage()


def deciding(**decision: Any) -> type[online.Policy]:
    """A policy that says this once two requests run."""

    class Wrong(Greedy):
        def decide(self, state: online.State) -> Any:
            usual = super().decide(state)
            return online.Decision(**decision) if len(state.running) == 2 else usual

    return Wrong


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ({"evict": [2]}, "not running"),
        ({"start": [0]}, "not all of them waiting"),
        ({"start": [2, 2]}, "not all of them waiting"),
        ({"preempt": [2]}, "not running"),
        ({"hold": [9]}, "not running"),
        ({"prefill": {2: 5}}, "not running"),
        ({"prefill": {1: float("nan")}}, "NaN"),
    ],
)
def test_what_is_impossible_is_not_done(
    bridge: ModuleType, caplog: pytest.LogCaptureFixture, decision: dict[str, Any], told: str
) -> None:
    server = led(bridge, deciding(**decision))
    requests = add(server, (20, 9), (20, 9))
    server.step()
    requests += add(server, (20, 9))
    server.serve()
    assert [one.num_output_tokens for one in requests] == [9, 9, 9]
    assert [one.preemptions for one in requests] == [0, 0, 0]
    assert told in caplog.text
    assert caplog.text.count("leads no more") == 1


def test_in_a_server_a_refusal_is_a_line_and_no_traceback(
    bridge: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bridge, "parent_process", object)
    with pytest.raises(SystemExit):
        bridge.PolicyScheduler(configuration(policy="no-such-policy"))
    assert [one.exc_info for one in caplog.records if "no-such" in one.getMessage()] == [None]


def test_an_evicted_request_is_preempted_and_keeps_its_output(
    bridge: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """Outputs are longer than predicted, so that memory overflows."""
    server = led(bridge, "mc-sf", blocks=6)
    told = {"predicted_output": 2}
    requests = [Request(str(number), 20, 40, told) for number in range(3)]
    for request in requests:
        server.scheduler.add_request(request)
    server.serve()
    assert [one.num_output_tokens for one in requests] == [40, 40, 40]
    assert sum(one.preemptions for one in requests) >= server.scheduler.lead.evicted > 0
    assert caplog.text.count("preempts instead") == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"speculative_config": object()}, "speculative decoding"),
        ({"kv_transfer_config": object()}, "a KV connector"),
        ({"parallel_config": SimpleNamespace(pipeline_parallel_size=2)}, "pipeline"),
        ({"prefill_schedule_interval": 2}, "prefill_schedule_interval' cannot be led"),
    ],
)
def test_engines_that_cannot_be_led_are_refused(
    bridge: ModuleType, change: dict[str, Any], told: str
) -> None:
    engine = configuration(policy="mc-sf")
    vars(engine).update(change)
    vars(engine.scheduler_config).update(change)
    with pytest.raises(InvalidValueError, match=told):
        bridge.PolicyScheduler(engine)


def test_the_policy_vllm_takes_the_engine_s_settings(bridge: ModuleType) -> None:
    engine = configuration(policy="vllm:max_num_seqs=8")
    engine.scheduler_config.watermark = 0.25
    policy = bridge.PolicyScheduler(engine).lead.policy
    assert (policy.max_num_batched_tokens, policy.max_num_seqs) == (8192, 8)
    assert (policy.watermark, policy.scheduler_reserve_full_isl) == (0.25, True)
    assert (policy.asynchronous, policy.prefix_caching) == (False, False)


@pytest.mark.parametrize(
    ("name", "mine", "theirs"),
    [
        ("scheduler_reserve_full_isl", False, True),
        ("watermark", 0.0, 0.25),
        ("long_prefill_token_threshold", 0, 32),
        ("enable_chunked_prefill", True, False),
    ],
)
def test_settings_of_the_policy_that_the_engine_would_overrule_are_refused(
    bridge: ModuleType, name: str, mine: Any, theirs: Any
) -> None:
    engine = configuration(policy=f"vllm:{name}={mine}")
    setattr(engine.scheduler_config, name, theirs)
    with pytest.raises(InvalidValueError, match=f"{name} = {mine} is not the engine's, {theirs}"):
        bridge.PolicyScheduler(engine)
    setattr(engine.scheduler_config, name, mine)
    assert getattr(bridge.PolicyScheduler(engine).lead.policy, name) == mine


def test_a_policy_must_be_named_and_have_its_level(bridge: ModuleType) -> None:
    with pytest.raises(InvalidTypeError, match="is not told"):
        bridge.PolicyScheduler(configuration())
    with pytest.raises(InvalidValueError, match='needs "level"'):
        bridge.PolicyScheduler(configuration(policy="edf"))
    server = led(bridge, "edf", level={"latency": 50}, batch_time="affine:1,0,0")
    requests = add(server, (20, 5), (30, 4))
    server.serve()
    assert [one.num_output_tokens for one in requests] == [5, 4]
    assert server.scheduler.lead is not None


def test_another_version_is_warned_of_and_a_missing_method_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake_vllm.install(monkeypatch, "0.41.0")
    bridge = importlib.import_module("online.bridges.vllm")
    bridge.PolicyScheduler(configuration(policy="mc-sf"))
    assert "was tested with vLLM 0.32 and 0.33, and this is 0.41.0" in caplog.text
    monkeypatch.delattr(fake_vllm.Scheduler, "_reserve_prefill_lookahead")
    with pytest.raises(InvalidValueError, match="has no _reserve_prefill_lookahead"):
        bridge.PolicyScheduler(configuration(policy="mc-sf"))


def test_what_the_engine_refuses_or_preempts_is_told(bridge: ModuleType) -> None:
    server = led(bridge, Greedy, blocks=4)
    lead = server.scheduler.lead
    add(server, (32, 3), (30, 3), (16, 3))
    server.step()
    # The first two fill the memory: the third was started and refused.
    assert lead.policy.told == [("arrive", ["0", "1", "2"])]
    server.step()
    # The first needed a block more, so the engine took the second out.
    assert lead.policy.told[1:] == [("arrive", ["2"])]
    assert list(server.steps[1]) == ["0"]
    server.step()
    assert set(lead.policy.told[2][1]) == {"1", "2"}
    server.serve()
    lead.orders(99.0, [])
    done = [name for what, names in lead.policy.told if what == "complete" for name in names]
    assert sorted(done) == ["0", "1", "2"]


def test_aborts_before_during_and_while_waiting(bridge: ModuleType) -> None:
    class OneByOne(Greedy):
        def decide(self, state: online.State) -> online.Decision:
            start = [] if state.running else self.queue[:1]
            self.queue = self.queue[len(start) :]
            return online.Decision(start=start)

    server = led(bridge, OneByOne)
    requests = add(server, (20, 9), (20, 9), (20, 9), (20, 4))
    scheduler = server.scheduler
    scheduler.finish(requests[1], Reason.ABORT)
    server.step()
    scheduler.finish(requests[2], Reason.ABORT)
    server.step()
    scheduler.finish(requests[0], Reason.ABORT)
    server.serve()
    assert [one.num_output_tokens for one in requests] == [2, 0, 0, 4]
    # The one that was unheard of is never told; the one that waited ends when it is started.
    assert scheduler.lead.policy.told == [
        ("arrive", ["0", "2", "3"]),
        ("complete", ["0"]),
        ("complete", ["2"]),
    ]
    server.scheduler.lead.orders(99.0, [])
    assert scheduler.lead.policy.told[3:] == [("complete", ["3"])]


class Erratic(Greedy):
    """Starts, holds, cuts, preempts and evicts at random."""

    pauses, randomized = True, True

    def reset(self, setup: online.Setup) -> None:
        super().reset(setup)
        self.rng = setup.rng

    def decide(self, state: online.State) -> online.Decision:
        def some(indices: Any, share: float) -> list[int]:
            return [index for index in indices if self.rng.random() < share]

        back = some(state.running, 0.05)
        evict = some(back, 0.3)
        left = [index for index in state.running if index not in back]
        hold, start = some(left, 0.15), some(self.queue, 0.4)
        self.queue = [index for index in self.queue if index not in start]
        prompts = {i: state.running[i].prompt_left for i in left if i not in hold}
        cut = {i: int(self.rng.integers(1, n)) for i, n in prompts.items() if n > 1}
        preempt = [index for index in back if index not in evict]
        return online.Decision(start, evict, hold, state.round_index + 1, cut, preempt)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_policy_does_every_request_is_served(bridge: ModuleType, seed: int) -> None:
    server, rng = led(bridge, Erratic, blocks=10, patience=99.0), np.random.default_rng(seed)
    lead, sent, gone = server.scheduler.lead, [], []
    for number in range(600):
        alive = [one for one in sent if one.reason is None]
        if number < 200 and rng.random() < 0.3:
            sent += [Request(str(number), *rng.integers(1, 60, 2).tolist())]
            server.scheduler.add_request(sent[-1])
        elif alive and rng.random() < 0.02:
            gone.append(alive[int(rng.integers(len(alive)))])
            server.scheduler.finish(gone[-1], Reason.ABORT)
        server.step()
    server.serve(5000)
    served = [one for one in sent if one not in gone]
    assert len(served) > 30
    assert all(one.num_output_tokens == one.max_tokens for one in served)
    assert server.scheduler.lead is lead


def test_a_policy_that_waits_for_company_is_drained_and_begins_anew(bridge: ModuleType) -> None:
    server = led(bridge, "wait:thresholds=2", patience=5.0)
    for _ in range(2):
        begun = server.now
        (alone,) = add(server, (20, 3))
        server.serve()
        # It waited out the patience, then was served without company: the second time as well.
        assert alone.num_output_tokens == 3
        assert 8 <= server.now - begun <= 11
        server.scheduler.schedule()
    assert server.scheduler.lead is not None


def test_a_policy_that_lets_the_engine_idle_leads_no_more(
    bridge: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    class Idle(Greedy):
        def decide(self, state: online.State) -> online.Decision:
            return online.Decision(hold=list(state.running))

    server = led(bridge, Idle, patience=4.0)
    requests = add(server, (20, 3))
    server.serve()
    assert requests[0].num_output_tokens == 3
    assert "has let none advance" in caplog.text


TOLD: list[tuple[Any, tuple[int, int, int]]] = [
    (7, (7, 7, 7)),
    ("7", (7, 7, 7)),
    ([3, 9], (3, 6, 9)),
    ([3, 4, 900], (3, 4, 50)),
    (900, (50, 50, 50)),
    (0, (1, 1, 1)),
    (6.6, (7, 7, 7)),
    (None, (50, 50, 50)),
    *[(bad, (50, 50, 50)) for bad in ([9, 3], [], "many", {"a": 1}, float("nan"))],
]


def test_predictions_of_clients_reach_the_policy_and_a_bad_one_is_warned_of_once(
    bridge: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[int, int, int]] = []

    class Note(Greedy):
        def arrive(self, requests: Sequence[Any], state: online.State) -> None:
            super().arrive(requests, state)
            told = [one.prediction for one in requests]
            seen.extend((one.lower, one.point, one.upper) for one in told)

    server = led(bridge, Note)
    for number, (told, _) in enumerate(TOLD):
        extra = None if told is None else {"predicted_output": told}
        server.scheduler.add_request(Request(str(number), 20, 50, extra))
    # More than memory holds beside the prompt is not predicted.
    server.scheduler.add_request(Request("long", 100, 4096))
    server.step()
    assert seen == [*(expected for _, expected in TOLD), (93, 93, 93)]
    assert caplog.text.count("is neither tokens nor") == 1


def ended(reason: str, prompt: int, output: int, latency: float) -> Any:
    """A finished request in vLLM's statistics."""
    return SimpleNamespace(
        finish_reason=SimpleNamespace(name=reason),
        request_id=None,
        e2e_latency=latency,
        num_prompt_tokens=prompt,
        num_generation_tokens=output,
    )


def test_the_requests_of_an_unchanged_server_come_by_its_metrics(
    bridge: ModuleType, tmp_path: Path
) -> None:
    metrics = importlib.import_module("online.bridges.vllm_metrics")
    path = tmp_path / "requests.jsonl"
    logger = metrics.RequestsLogger(configuration(requests=str(path)))
    for time, *requests in (
        (100.0, ended("LENGTH", 20, 3, 1.5)),
        (101.0, ended("ABORT", 9, 1, 0.5), ended("STOP", 30, 4, 0.25)),
    ):
        step = SimpleNamespace(iteration_timestamp=time, finished_requests=requests)
        logger.record(None, step)
    logger.record(None, None)
    log = read_log(path)
    assert log.arrival_times.tolist() == [0.0, 2.25]
    assert log.latencies.tolist() == [1.5, 0.25]
    assert log.output_lengths.tolist() == [3, 4]
    first, second, _ = path.read_text("utf-8").splitlines()
    assert '"engine": {"name": "vllm", "policy": null, "max_num_batched_tokens": 8192' in first
    assert "engine" not in second
    assert '"error_type": "abort"' in second
    # Not asked for: nothing is written. Led: the policy is named.
    metrics.RequestsLogger(configuration()).record(None, step)
    engine = configuration(requests=str(path), policy="mc-sf")
    engine.scheduler_config.scheduler_cls = "online.bridges.vllm.PolicyScheduler"
    metrics.RequestsLogger(engine).record(None, step)
    assert '"policy": "mc-sf"' in path.read_text("utf-8")


def test_a_batch_time_is_a_text_or_a_file(bridge: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    rows = [f"{t},{k},{0.01 + 1e-4 * t + 1e-6 * k}" for t in range(1, 60) for k in (500, 9000)]
    path.write_text("\n".join(["tokens,kv_tokens,seconds", *rows]), encoding="utf-8")
    for text, seconds in ((str(path), 0.01 + 30e-4 + 30e-6), ("affine:0.01,0.0001,0", 0.013)):
        one = Workload([0.0], [30], [1], memory_limit=99, batch_time=bridge.batch_time_of(text))
        (found,) = online.simulate(one, "fcfs").completion_times
        assert found == pytest.approx(seconds, rel=1e-3)
    assert bridge.batch_time_of(None) is None
    with pytest.raises(InvalidValueError, match="needs a log"):
        bridge.batch_time_of("fit")


def test_a_machine_without_ends_does_not_grow(bridge: ModuleType) -> None:
    lead = bridge.Lead(online.make_policy("fcfs"), 12, SIZE)
    for number in range(2000):
        name = str(number)
        lead.arrive(name, float(number), (20, 5), None)
        orders = lead.orders(float(number), [])
        lead.ran({name: 20}, dict.fromkeys(orders.start, 0))
        for _ in range(3):
            lead.orders(float(number), [name])
            lead.ran({}, {})
        lead.end(name)
    assert len(lead._machine._ends) < 300
    assert max(map(len, (lead._views, lead._machine.record))) <= 1


def test_without_vllm_the_import_says_so_in_one_line() -> None:
    code = "import sys\nsys.modules['vllm'] = None\nimport online.bridges.vllm"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: online.bridges.vllm runs inside vLLM")
    assert "During handling" not in done.stderr
