"""Policies that lead vLLM, and the log of its requests, against a stand-in for the engine."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
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


@pytest.fixture(autouse=True)
def _vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fake_vllm.install(monkeypatch)
    yield
    for name in fake_vllm.USERS:
        sys.modules.pop(name, None)


def bridge(name: str = "vllm") -> Any:
    return importlib.import_module(f"online.bridges.{name}")


class Server:
    """An engine's loop, a step a unit of time, led by a policy: a text, or a class."""

    def __init__(self, policy: Any, blocks: int = 12, patience: float = 1.0, **more: Any) -> None:
        text = policy if isinstance(policy, str) else "fcfs"
        engine = configuration(blocks, SIZE, policy=text, patience=patience, **more)
        self.scheduler, self.now, self.steps = bridge().PolicyScheduler(engine), 0, []
        if text is not policy:
            self.scheduler.lead = bridge().Lead(policy(), blocks, SIZE, patience=patience)
        self.scheduler.clock, self.scheduler._begun = lambda: float(self.now), 0.0

    def add(self, *lengths: tuple[int, int], told: Any = None) -> list[Request]:
        """Send requests, called by their place."""
        count = len(self.scheduler.requests)
        extra = None if told is None else {"predicted_output": told}
        requests = [Request(str(count + k), *pair, extra) for k, pair in enumerate(lengths)]
        for request in requests:
            self.scheduler.add_request(request)
        return requests

    def step(self) -> None:
        output = self.scheduler.schedule()
        self.scheduler.update_from_output(output, None)
        self.now += 1
        if output.num_scheduled_tokens:
            self.steps.append(output.num_scheduled_tokens)

    def serve(self, most: int = 500) -> None:
        for _ in range(most):
            if not self.scheduler.requests:
                return
            self.step()
        raise AssertionError(f"after {most} steps: {list(self.scheduler.requests)} are left")


LEADING = (
    *("mc-sf", "a-min", "edf", "sglang", "tensorrt-llm"),
    "vllm:asynchronous=False,prefix_caching=False",
    "sarathi:preemption=recompute,watermark=0,chunk_size=24",
)


@pytest.mark.parametrize("policy", LEADING)
def test_the_engine_takes_the_steps_of_the_simulation(policy: str) -> None:
    rng = np.random.default_rng(5)
    prompts, outputs = rng.integers(3, 70, 40).tolist(), rng.integers(1, 40, 40).tolist()
    arrivals = np.sort(rng.integers(0, 160, 40)).tolist()
    machine = {"memory_limit": 12 * SIZE, "memory_rule": MemoryRule(SIZE, "next", "chunks")}
    workload = Workload([float(t) for t in arrivals], prompts, outputs, batch_time=TIME, **machine)
    expected: list[dict[int, int]] = []
    with watched(expected):
        online.simulate(workload, policy, level=LEVEL)
    server = Server("fcfs")
    lead = bridge().Lead(online.make_policy(policy), 12, SIZE, level=LEVEL, batch_time=TIME)
    server.scheduler.lead = lead
    sent = 0
    while sent < 40 or server.scheduler.requests:
        if not server.scheduler.requests:
            server.now = max(server.now, arrivals[sent])
        while sent < 40 and arrivals[sent] <= server.now:
            server.scheduler.add_request(Request(str(sent), prompts[sent], outputs[sent]))
            sent += 1
        lead.patience = np.inf if sent < 40 else 0.0
        server.step()
    assert server.scheduler.lead is lead
    assert [{int(name): n for name, n in step.items()} for step in server.steps] == expected


class Greedy(online.Policy):
    """Starts all that wait, whatever fits; notes what it is told."""

    def reset(self, setup: online.Setup) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.seen: list[Any] = []

    def arrive(self, requests: Sequence[Any], state: online.State) -> None:
        self.told.append(("arrive", [request.id for request in requests]))
        self.seen += requests

    def complete(self, requests: Sequence[Any], state: online.State) -> None:
        self.told.append(("complete", [request.id for request in requests]))

    def decide(self, state: online.State) -> online.Decision:
        return online.Decision(start=[*state.waiting])


def failing(where: str, error: BaseException) -> type[online.Policy]:
    """A policy that raises in one of its methods once it has seen three requests."""

    def fail(self: Any, *arguments: Any) -> Any:
        found = getattr(Greedy, where)(self, *arguments)
        if where == "complete" or len(self.seen) >= 3:
            raise error
        return found

    return type("Failing", (Greedy,), {where: fail})


def deciding(**decision: Any) -> type[online.Policy]:
    """A policy that says this once two requests run."""

    class Wrong(Greedy):
        def decide(self, state: online.State) -> online.Decision:
            return online.Decision(**decision) if len(state.running) == 2 else super().decide(state)

    return Wrong


class Idle(Greedy):
    """Lets nothing advance."""

    def decide(self, state: online.State) -> online.Decision:
        return online.Decision(hold=list(state.running))


BAD_LEADS: list[tuple[type[online.Policy], str]] = [
    (failing("arrive", KeyError("lost")), "KeyError"),
    (failing("complete", SystemExit(3)), "SystemExit"),
    (failing("decide", RecursionError()), "RecursionError"),
    *[(deciding(**{name: [2]}), "not running") for name in ("evict", "preempt", "hold")],
    *[(deciding(start=start), "not all of them waiting") for start in ([0], [2, 2])],
    (deciding(prefill={2: 5}), "not running"),
    (deciding(prefill={1: float("nan")}), "NaN"),
    (Idle, "has let none of its"),
]


@pytest.mark.parametrize(("policy", "told"), BAD_LEADS)
def test_an_engine_goes_on_without_a_policy_that_fails(
    policy: type[online.Policy], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(policy, patience=4.0)
    requests = server.add((20, 9), (20, 9))
    server.step()
    requests += server.add((20, 9))
    server.serve()
    requests += server.add((30, 2))
    server.serve()
    done = [(one.num_output_tokens, one.preemptions) for one in requests]
    assert done == [(9, 0), (9, 0), (9, 0), (2, 0)]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "continues in its own order" in record.getMessage()
    assert told in record.getMessage()


def test_in_a_server_a_refusal_is_a_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bridge(), "parent_process", object)
    with pytest.raises(SystemExit):
        bridge().PolicyScheduler(configuration(policy="no-such-policy"))
    assert [one.exc_info for one in caplog.records if "no-such" in one.getMessage()] == [None]


def test_an_evicted_request_is_preempted_and_keeps_its_output(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Outputs are longer than predicted, so that memory overflows."""
    server = Server("mc-sf", blocks=6)
    requests = server.add(*[(20, 40)] * 3, told=2)
    server.serve()
    assert [one.num_output_tokens for one in requests] == [40, 40, 40]
    assert sum(one.preemptions for one in requests) >= server.scheduler.lead.evicted > 0
    assert caplog.text.count("preempts instead") == 1


UNLED: list[tuple[str | None, dict[str, Any], str]] = [
    ("mc-sf", {"speculative_config": object()}, "speculative decoding"),
    ("mc-sf", {"kv_transfer_config": object()}, "a KV connector"),
    ("mc-sf", {"parallel_config": SimpleNamespace(pipeline_parallel_size=2)}, "pipeline"),
    ("mc-sf", {"prefill_schedule_interval": 2}, "prefill_schedule_interval' cannot be controlled"),
    ("vllm:watermark=0.0", {"watermark": 0.25}, "watermark = 0.0 is not the engine's, 0.25"),
    ("vllm:enable_chunked_prefill=True", {"enable_chunked_prefill": False}, "engine's, False"),
    (None, {}, "is missing"),
    ("edf", {}, 'needs "level"'),
    ("edf", {"additional_config": {"policy": "edf", "batch_time": "fit"}}, "needs a log"),
]


@pytest.mark.parametrize(("policy", "change", "told"), UNLED)
def test_engines_that_cannot_be_led_are_refused(
    policy: str | None, change: dict[str, Any], told: str
) -> None:
    engine = configuration(**({"policy": policy} if policy else {}))
    vars(engine).update(change)
    vars(engine.scheduler_config).update(change)
    with pytest.raises((InvalidValueError, InvalidTypeError), match=told):
        bridge().PolicyScheduler(engine)


def test_a_policy_takes_the_engine_s_settings_and_its_level() -> None:
    engine = configuration(policy="vllm:max_num_seqs=8")
    engine.scheduler_config.watermark = 0.25
    policy = bridge().PolicyScheduler(engine).lead.policy
    assert (policy.max_num_batched_tokens, policy.max_num_seqs) == (8192, 8)
    assert (policy.watermark, policy.scheduler_reserve_full_isl) == (0.25, True)
    assert (policy.asynchronous, policy.prefix_caching) == (False, False)
    server = Server("edf", level={"latency": 50}, batch_time="affine:1,0,0")
    requests = server.add((20, 5), (30, 4))
    server.serve()
    assert [one.num_output_tokens for one in requests] == [5, 4]
    assert server.scheduler.lead is not None


def test_another_version_is_warned_of_and_a_missing_method_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake_vllm.install(monkeypatch, "0.41.0")
    bridge().PolicyScheduler(configuration(policy="mc-sf"))
    assert "was tested with vLLM 0.32 and 0.33, and this is 0.41.0" in caplog.text
    monkeypatch.delattr(fake_vllm.Scheduler, "_reserve_prefill_lookahead")
    with pytest.raises(InvalidValueError, match="has no _reserve_prefill_lookahead"):
        bridge().PolicyScheduler(configuration(policy="mc-sf"))


def test_what_the_engine_refuses_or_preempts_is_told() -> None:
    server = Server(Greedy, blocks=4)
    lead = server.scheduler.lead
    server.add((32, 3), (30, 3), (16, 3))
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


def test_aborts_before_during_and_while_waiting() -> None:
    class OneByOne(Greedy):
        def decide(self, state: online.State) -> online.Decision:
            return online.Decision(start=[] if state.running else [*state.waiting][:1])

    server = Server(OneByOne)
    requests = server.add((20, 9), (20, 9), (20, 9), (20, 4))
    scheduler = server.scheduler
    for aborted in (requests[1], requests[2], requests[0]):
        scheduler.finish(aborted, Reason.ABORT)
        if aborted is not requests[0]:
            server.step()
    server.serve()
    assert [one.num_output_tokens for one in requests] == [2, 0, 0, 4]
    # The one that was unheard of is never told; the one that waited ends when it is started.
    told = [("arrive", ["0", "2", "3"]), ("complete", ["0"]), ("complete", ["2"])]
    assert scheduler.lead.policy.told == told
    server.scheduler.lead.orders(99.0, [])
    assert scheduler.lead.policy.told[3:] == [("complete", ["3"])]


class Erratic(Greedy):
    """Starts, holds, cuts, preempts and evicts at random."""

    randomized = True

    def reset(self, setup: online.Setup) -> None:
        super().reset(setup)
        self.rng = setup.rng

    def decide(self, state: online.State) -> online.Decision:
        def some(indices: Any, share: float) -> list[int]:
            return [index for index in indices if self.rng.random() < share]

        back = some(state.running, 0.05)
        evict = some(back, 0.3)
        left = [index for index in state.running if index not in back]
        hold, start = some(left, 0.15), some(state.waiting, 0.4)
        prompts = {i: state.running[i].prompt_left for i in left if i not in hold}
        cut = {i: int(self.rng.integers(1, n)) for i, n in prompts.items() if n > 1}
        preempt = [index for index in back if index not in evict]
        return online.Decision(start, evict, hold, state.round_index + 1, cut, preempt)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_policy_does_every_request_is_served(seed: int) -> None:
    server, rng = Server(Erratic, blocks=10, patience=99.0), np.random.default_rng(seed)
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


def test_a_policy_that_waits_for_company_is_drained_and_begins_anew() -> None:
    server = Server("wait:thresholds=2", patience=5.0)
    for _ in range(2):
        begun = server.now
        (alone,) = server.add((20, 3))
        server.serve()
        # It waited out the patience, then was served without company: the second time as well.
        assert alone.num_output_tokens == 3
        assert 8 <= server.now - begun <= 11
        server.scheduler.schedule()
    assert server.scheduler.lead is not None


MOST = 50
TOLD: list[tuple[Any, tuple[int, int, int]]] = [
    *[(told, (7, 7, 7)) for told in (7, "7", 6.6)],
    *[([3, 9], (3, 6, 9)), ([3, 4, 900], (3, 4, MOST)), (0, (1, 1, 1))],
    *[(told, (MOST,) * 3) for told in (None, 900, [9, 3], [], "many", {"a": 1}, float("nan"))],
]


def test_predictions_of_clients_reach_the_policy_and_a_bad_one_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(Greedy)
    for told, _ in TOLD:
        server.add((20, MOST), told=told)
    # More than memory holds beside the prompt is not predicted.
    server.add((100, 4096))
    server.step()
    told = [one.prediction for one in server.scheduler.lead.policy.seen]
    expected = [*(expected for _, expected in TOLD), (93, 93, 93)]
    assert [(one.lower, one.point, one.upper) for one in told] == expected
    assert caplog.text.count("is neither tokens nor") == 1


def ended(reason: str, prompt: int, output: int, latency: float) -> Any:
    """A finished request in vLLM's statistics."""
    lengths = {"num_prompt_tokens": prompt, "num_generation_tokens": output}
    why = SimpleNamespace(name=reason)
    return SimpleNamespace(finish_reason=why, request_id=None, e2e_latency=latency, **lengths)


def test_the_requests_of_an_unchanged_server_come_by_its_metrics(tmp_path: Path) -> None:
    metrics = bridge("vllm_metrics")
    path = tmp_path / "requests.jsonl"
    logger = metrics.RequestsLogger(configuration(requests=str(path)))
    more = [ended("ABORT", 9, 1, 0.5), ended("STOP", 30, 4, 0.25)]
    for time, requests in ((100.0, [ended("LENGTH", 20, 3, 1.5)]), (101.0, more)):
        step = SimpleNamespace(iteration_timestamp=time, finished_requests=requests)
        logger.record(None, step)
    logger.record(None, None)
    log = read_log(path)
    columns = (log.arrival_times, log.latencies, log.output_lengths)
    assert [one.tolist() for one in columns] == [[0.0, 2.25], [1.5, 0.25], [3, 4]]
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


def test_a_machine_without_ends_does_not_grow() -> None:
    lead = bridge().Lead(online.make_policy("fcfs"), 12, SIZE)
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
    machine = lead._machine
    records = (machine.actions, machine.attempts, machine.start_times, machine.ran)
    assert max(map(len, (lead._views, *records))) <= 1


def test_without_vllm_the_import_says_so_in_one_line() -> None:
    code = "import sys\nsys.modules['vllm'] = None\nimport online.bridges.vllm"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: online.bridges.vllm runs inside vLLM")
    assert "During handling" not in done.stderr
