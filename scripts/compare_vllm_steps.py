"""Let policies lead vLLM's real engine, and compare each of its steps with the simulation.

Runs inside an environment that has vLLM: `scripts/vllm_steps.sh` makes it. The engine is vLLM's
own, with its scheduler, its block manager and its input processing, in this process; the worker
computes nothing (or runs a made-up model on the CPU, with ``--worker cpu``). A step takes one unit
of a clock that the engine and the simulation share.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import _checkout  # noqa: F401
import numpy as np
import typer
from write_tiny_model import write_configuration

import online
from instances import MemoryRule, ServiceLevel, Workload
from instances.errors import InvalidValueError
from online.bridges.lead import Lead, check_leads
from online.commands.console import run, say
from online.headroom.engine_settings import with_settings
from online.policy_interface.specs import PolicySpec, parameterless_policies, read_policy
from online.simulation.machine import Machine

DIFFERENT_STATUS = 1
"""Some step of the engine is another than the simulation's."""

BLOCK = 32
"""Tokens of a block; the CPU's attention takes multiples of this."""

EMULATED = {"distributed_executor_backend": "emulated_vllm.EmulatedExecutor"}
"""The worker of tests/support, which `scripts/vllm_steps.sh` puts on the path."""

SIZES = {"roomy": (60, 500), "ample": (60, 40), "tight": (120, 20), "tightest": (120, 14)}
"""Requests, and blocks of memory."""

LEVEL = ServiceLevel(latency=300)
"""Service level that policies with deadlines are told, in steps."""

TIME = online.AffineTime(1.0)

SETTINGS = {
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 256,
    "async_scheduling": False,
    "enable_prefix_caching": False,
}
"""The engine's settings where a row names no others; the policy `vllm` has the same."""

ENGINE_ORDER = "(vLLM's own order)"
KNOBS = (
    "watermark=0.1",
    "scheduler_reserve_full_isl=False,long_prefill_token_threshold=24",
    "long_prefill_token_threshold=24",
    "long_prefill_token_threshold=24,long_prefill_token_threshold_adaptive=True",
    "max_num_batched_tokens=256",
    "max_num_batched_tokens=256,enable_chunked_prefill=False",
    "policy=priority,order=shortest-output",
    "prefill_schedule_interval=4",
)
"""Settings that are compared too, as the engine's own and as the policy's that leads it."""

TIGHT = ("tight", "tightest")
"""Sizes at which they are."""

OTHER_BEFORE_0_33 = ("policy=priority", "prefill_schedule_interval")

WITH_KNOBS = tuple(f"{lead}{knobs}" for lead in (f"{ENGINE_ORDER} ", "vllm:") for knobs in KNOBS)
FURTHER = (
    *WITH_KNOBS,
    "vllm:order=shortest-output",
    "sarathi:preemption=recompute,watermark=0",
    "vllm-v0:preemption=recompute,watermark=0",
    "wait:thresholds=3",
    "nested-wait:thresholds=3",
)
LONGEST_SHOWN = 160

Step = dict[int, int]


@dataclass
class Outcome:
    """Comparison of one policy at one size.

    Attributes
    ----------
    steps : int
        Steps of the engine in which anything ran.
    difference : str or None
        The first step that differs.
    evicted, alike_until : int
        Requests that the policy evicted, and that the engine preempted; steps before the first of
        them, which have to be the simulation's.
    plan_seconds : float
        Seconds of planning, those of the policy among them.
    """

    steps: int = 0
    difference: str | None = None
    evicted: int = 0
    alike_until: int = 0
    plan_seconds: float = 0.0


@dataclass
class Work:
    """Requests drawn from a seed; a unit of time is a step."""

    count: int
    blocks: int
    seed: int = 1
    prompts: list[int] = field(init=False)
    outputs: list[int] = field(init=False)
    arrivals: list[int] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.prompts = rng.integers(4, 150, self.count).tolist()
        self.outputs = rng.integers(2, 90, self.count).tolist()
        self.arrivals = np.sort(rng.integers(0, 6 * self.count, self.count)).tolist()

    @property
    def workload(self) -> Workload:
        """The requests for the simulator."""
        return Workload(
            [float(time) for time in self.arrivals],
            self.prompts,
            self.outputs,
            memory_limit=self.blocks * BLOCK,
            batch_time=TIME,
            memory_rule=MemoryRule(BLOCK, "next", "chunks"),
        )


@contextmanager
def watched(steps: list[Step]) -> Iterator[None]:
    """Write down which tokens the simulator's machine processes in each round."""
    original = Machine.advance

    def advance(self: Machine, decision: online.Decision, *rest: Any) -> Any:
        chunks = self._chunks(decision)
        held = set(decision.hold)
        left = {i: one.prompt_left for i, one in self.running.items() if i not in held}
        before = self.round_index
        result = yield from original(self, decision, *rest)
        for _ in range(self.round_index - before):
            step = {i: chunks.get(i, prompt or 1) for i, prompt in left.items()}
            left = {i: max(0, prompt - step[i]) for i, prompt in left.items()}
            steps.append({i: tokens for i, tokens in step.items() if tokens})
        return result

    with patch.object(Machine, "advance", advance):
        yield


def read(text: str) -> PolicySpec:
    """Read the policy that leads, or the one that does what the engine does in its own order."""
    if text.startswith(ENGINE_ORDER):
        text = f"vllm:{text.removeprefix(ENGINE_ORDER).strip()}"
    return with_settings(read_policy(text), "vllm", SETTINGS)


def engine_arguments(text: str) -> dict[str, Any]:
    """Return the engine's settings for a row, where they are others."""
    given = dict(read(text).params)
    if not text.startswith(ENGINE_ORDER):
        # The policy does the rest. The engine would refuse what it does not reserve for.
        reserves = "scheduler_reserve_full_isl"
        return {reserves: given[reserves]} if reserves in given else {}
    given = {name: value for name, value in given.items() if SETTINGS.get(name) != value}
    renamed = {"policy": "scheduling_policy"}
    left_out = ("order", "asynchronous", "prefix_caching")
    return {renamed.get(k, k): value for k, value in given.items() if k not in left_out}


def simulated(work: Work, text: str) -> list[Step]:
    """Steps of the simulation."""
    steps: list[Step] = []
    policy = read(text).make()
    level = LEVEL if policy.reads_deadlines else None
    with watched(steps):
        online.simulate(work.workload, policy, level=level)
    return steps


class Engine:
    """vLLM's engine in this process, with a clock of its own."""

    def __init__(self, model: str, blocks: int, worker: str, further: dict[str, Any]) -> None:
        from vllm import EngineArgs, LLMEngine
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.request_queue import create_request_queue

        from online.bridges import vllm as bridge

        self.blocks, self.now, self.bridge, self.queue = blocks, 0, bridge, create_request_queue
        led = "prefill_schedule_interval" not in further
        kind = bridge.PolicyScheduler if led else AsyncScheduler
        arguments = EngineArgs(
            model=model,
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            dtype="float32",
            max_model_len=256,
            block_size=BLOCK,
            num_gpu_blocks_override=blocks + 1,
            disable_log_stats=True,
            **(SETTINGS | further),
            scheduler_cls=kind,
            additional_config={"policy": "fcfs", "batch_time": "affine:1e-9,0,0"},
            **(EMULATED if worker == "emulated" else {}),
        )
        self.engine = LLMEngine.from_engine_args(arguments)
        self.scheduler = self.engine.engine_core.engine_core.scheduler
        self.scheduler.clock = lambda: float(self.now)
        self.by_priority = further.get("scheduling_policy") == "priority"
        self.own_schedule = self.scheduler.schedule

    def steps(self, work: Work, text: str) -> tuple[list[Step], Outcome]:
        """Let a policy lead, and return what ran in each step."""
        scheduler, outcome = self.scheduler, Outcome()
        steps: list[Step] = []
        self.now = scheduler._begun = 0
        lead = None
        if not text.startswith(ENGINE_ORDER):
            policy = read(text).make()
            level = LEVEL if policy.reads_deadlines else None
            lead = Lead(policy, self.blocks, BLOCK, level=level, batch_time=TIME, patience=np.inf)
        scheduler.lead = lead
        scheduler.waiting = self.bridge.Gate() if lead else self.queue(scheduler.policy)

        def schedule(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            output = self.own_schedule(*args, **kwargs)
            outcome.plan_seconds += time.perf_counter() - begun
            if lead and lead.evicted and not outcome.evicted:
                outcome.alike_until = len(steps)
            outcome.evicted = lead.evicted if lead else 0
            step = {int(k.split("-")[0]): n for k, n in output.num_scheduled_tokens.items()}
            if step:
                steps.append(step)
            return output

        def fail(error: BaseException) -> None:
            outcome.difference = f"{type(error).__name__}: {error}"
            type(scheduler)._go_on_alone(scheduler, error)

        scheduler.schedule, scheduler._go_on_alone = schedule, fail
        self._serve(work)
        outcome.steps = len(steps)
        return steps, outcome

    def _serve(self, work: Work) -> None:
        from vllm import SamplingParams

        rng, sent, done = np.random.default_rng(0), 0, 0
        while done < work.count:
            if not self.engine.has_unfinished_requests():
                self.now = max(self.now, work.arrivals[sent])
            while sent < work.count and work.arrivals[sent] <= self.now:
                output = work.outputs[sent]
                prompt = rng.integers(3, 500, work.prompts[sent]).tolist()
                parameters = SamplingParams(
                    max_tokens=output,
                    ignore_eos=True,
                    detokenize=False,
                    temperature=0,
                    extra_args={self.bridge.PREDICTION: output},
                )
                told = {"priority": output} if self.by_priority else {}
                self.engine.add_request(str(sent), {"prompt_token_ids": prompt}, parameters, **told)
                sent += 1
            if sent == work.count and self.scheduler.lead is not None:
                # The simulator tells policies that nothing more will arrive.
                self.scheduler.lead.patience = 0.0
            done += sum(output.finished for output in self.engine.step())
            self.now += 1


def compare(work: Work, text: str, theirs: list[Step], outcome: Outcome) -> None:
    """Compare the engine's steps with those of the simulation."""
    mine = simulated(work, text)
    if outcome.difference is None and mine != theirs:
        pairs = enumerate(zip(mine, theirs, strict=False))
        place = next((k for k, (one, other) in pairs if one != other), min(len(mine), len(theirs)))
        told = [steps[place] if place < len(steps) else "nothing" for steps in (mine, theirs)]
        if place < outcome.alike_until:
            outcome.evicted = 0
        outcome.difference = f"step {place}: simulated {told[0]}, the engine {told[1]}"


def verdict(outcome: Outcome) -> str:
    """What a row of the table says of one size."""
    if outcome.difference is None:
        return "identical"
    if outcome.evicted:
        return f"evicts {outcome.evicted} times"
    return outcome.difference[:LONGEST_SHOWN]


def chosen(texts: list[str], version: str) -> tuple[list[str], dict[str, str]]:
    """The policies to compare, and those that are refused, with the reason."""
    names = parameterless_policies(deadlines=True)
    every = [ENGINE_ORDER, *[name for name in names if name != "wait"], *FURTHER]
    refused = {}
    for text in texts or every:
        own = text.startswith(ENGINE_ORDER)
        try:
            if not own:
                check_leads(read(text).make(), LEVEL, TIME)
        except InvalidValueError as error:
            refused[text] = str(error)
        if own and version.startswith("0.32") and any(knob in text for knob in OTHER_BEFORE_0_33):
            refused[text] = f"vLLM {version} has another rule"
    return [text for text in texts or every if text not in refused], refused


def compare_vllm_steps(
    policies: Annotated[list[str] | None, typer.Argument(metavar="[POLICY]...")] = None,
    worker: Annotated[str, typer.Option(help="emulated, or cpu: vLLM's own.")] = "emulated",
    size: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(SIZES)}.")] = None,
) -> int:
    """Compare steps: exit status 0 identical, 1 some step differs.

    Prints a row a policy: steps at each size, whether all are identical (requests and tokens) or
    the first that is not, and the microseconds that planning a step takes.
    """
    settings = ("VLLM_ENABLE_V1_MULTIPROCESSING=0", "VLLM_CPU_KVCACHE_SPACE=1")
    further = ("VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1", "VLLM_LOGGING_LEVEL=ERROR")
    for setting in (*settings, *further):
        os.environ.setdefault(*setting.split("="))
    sizes = {name: SIZES[name] for name in size or SIZES}
    if worker == "cpu" and len(sizes) > 1:
        reason = "starts once in a process: give one --size"
        raise InvalidValueError(None, "--worker", worker, reason)
    from vllm.version import __version__ as version

    texts, refused = chosen(policies or [], version)
    outcomes: dict[str, list[Outcome]] = {text: [] for text in texts}
    ran = []
    with tempfile.TemporaryDirectory() as folder:
        write_configuration(Path(folder))
        for name, (count, blocks) in sizes.items():
            work, engines = Work(count, blocks), dict[str, Engine]()
            for text in texts:
                if text in WITH_KNOBS and name not in TIGHT:
                    continue
                own = engine_arguments(text)
                if str(own) not in engines:
                    engines[str(own)] = Engine(folder, blocks, worker, own)
                ran.append((work, text, *engines[str(own)].steps(work, text)))
    for work, text, theirs, outcome in ran:
        compare(work, text, theirs, outcome)
        outcomes[text].append(outcome)
    say(f"vLLM {version}, worker: {worker}; requests and blocks: {sizes}\n")
    say("| policy | steps | requests and tokens | planning, µs a step |")
    say("|---|--:|---|--:|")
    for text, row in outcomes.items():
        steps = sum(one.steps for one in row)
        plan = 1e6 * sum(one.plan_seconds for one in row) / steps
        told = "identical"
        if any(one.difference for one in row):
            told = "; ".join(map(verdict, row))
        counts = " + ".join(str(one.steps) for one in row)
        say(f"| `{text}` | {counts} | {told} | {plan:.0f} |")
    for text, reason in refused.items():
        say(f"| `{text}` | | refused: {reason} | |")
    alike = all(one.difference is None or one.evicted for row in outcomes.values() for one in row)
    return 0 if alike else DIFFERENT_STATUS


if __name__ == "__main__":
    run(compare_vllm_steps)
