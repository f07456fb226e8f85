"""`hindsight.solve` as a program: limits, interruptions, callbacks, warm starts, parameters."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from brute_force import optimal_total_latency

import hindsight
from instances import Instance, MemoryRule, Request, generate

ROOT = Path(__file__).resolve().parents[2]
SMALL = Instance.from_arrays([1, 2, 1, 3, 2], [4, 3, 6, 2, 5], [0, 3, 0, 1, 2], memory_limit=8)


def search_instance() -> Instance:
    """Small, but its list schedules and root bounds leave HiGHS something to do."""
    return generate("arrival-model-1", seed=6, n=6)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


def test_solving_in_a_thread_leaves_signals_alone() -> None:
    import threading

    before = signal.getsignal(signal.SIGINT)
    results: list[Any] = []
    worker = threading.Thread(target=lambda: results.append(hindsight.solve(SMALL, threads=1)))
    worker.start()
    worker.join(60)
    assert results[0].status == "optimal"
    assert signal.getsignal(signal.SIGINT) is before
    hindsight.solve(SMALL)
    assert signal.getsignal(signal.SIGINT) is before


class Own(Exception):  # noqa: N818
    """Only the tests raise it."""


@pytest.mark.parametrize("phase", ["heuristics", "relaxation", "search"])
def test_an_exception_of_the_callback_surfaces_as_itself(phase: str) -> None:
    instance = search_instance()
    phases: list[str] = []
    hindsight.solve(instance, threads=1, progress=lambda progress: phases.append(progress.phase))
    assert phase in phases
    before = signal.getsignal(signal.SIGINT)

    def hear(progress: hindsight.Progress) -> None:
        if progress.phase == phase:
            raise Own(phase)

    with pytest.raises(Own, match=phase):
        hindsight.solve(instance, threads=1, progress=hear)
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_only_improves() -> None:
    told: list[hindsight.Progress] = []
    result = hindsight.solve(search_instance(), threads=1, progress=told.append)
    assert list(result.log) == told
    assert [p.seconds for p in told] == sorted(p.seconds for p in told)
    for before, after in itertools.pairwise(told):
        assert after.upper_bound <= before.upper_bound
        assert after.lower_bound >= before.lower_bound
    assert (told[-1].upper_bound, told[-1].lower_bound) == (result.upper_bound, result.lower_bound)
    assert told[-1].gap == result.gap == 0


def test_same_seed_same_answer() -> None:
    instance = search_instance()
    first = hindsight.solve(instance, threads=1, seed=5)
    hindsight.solve(SMALL, threads=1, seed=9)
    second = hindsight.solve(instance, threads=1, seed=5)
    assert first.schedule.start_times.tolist() == second.schedule.start_times.tolist()
    assert [(p.upper_bound, p.lower_bound) for p in first.log] == [
        (p.upper_bound, p.lower_bound) for p in second.log
    ]


def test_zero_prompts_and_a_single_request() -> None:
    zero = Instance(
        [Request(0, 0, 3), Request(0, 0, 5), Request(1, 0, 4), Request(0, 2, 3)],
        6,
        metadata={"allow_zero_prompt_length": True},
    )
    optimum, _ = optimal_total_latency(zero)
    for method in ("auto", "mip"):
        result = hindsight.solve(zero, threads=1, method=method)
        assert result.upper_bound == result.lower_bound == optimum
    single = Instance([Request(7, 3, 9)], 12)
    result = hindsight.solve(single)
    assert (result.upper_bound, result.lower_bound, result.certified_lower_bound) == (9, 9, 9)
    assert result.schedule.start_times.tolist() == [7]
    assert hindsight.relax(single).objective == pytest.approx(9)


PROGRAM = """
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (5 * 2**30, 5 * 2**30))
    import numpy as np, hindsight, online
    from instances import Instance
    integers = np.random.default_rng(1).integers
    for limit, cost, columns, memory in {cases}:
        instance = Instance.from_arrays(*columns, memory_limit=memory)
        result = hindsight.solve(instance, time_limit=limit, threads=1)
        assert 0 < result.certified_lower_bound <= result.lower_bound <= result.upper_bound
        if cost:
            assert cost == result.upper_bound == online.simulate(instance, "mc-sf").total_latency
        else:
            assert result.schedule.is_feasible
"""
# Idle gaps cost nothing in the problem, so they must not cost time or memory here.
FAR = "(5, 13, ([2, 2, 3], [3, 3, 4], [0, 10**9, 10**9]), 8)"
ARRIVING = "(1, 0, (integers(1, 600, 500), integers(1, 500, 500), integers(0, 5000, 500)), 16492)"
HUGE = "(1, 0, (integers(1, 10**5, 6), integers(10**4, 5 * 10**5, 6)), 10**6)"
LONGEST = "(0.5, 3 * (2**31 - 2), ([1, 1], [2**31 - 2] * 2), 2**31 - 1)"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "cases", [f"[{FAR}, {ARRIVING}, {HUGE}]", pytest.param(f"[{LONGEST}]", marks=pytest.mark.slow)]
)
def test_large_instances_never_fail(cases: str) -> None:
    """Within 5 GB, and without an end only if nothing looks at the time."""
    finished = run_python(PROGRAM.format(cases=cases))
    assert finished.returncode == 0, finished.stderr[-800:]


@pytest.mark.parametrize("rule", [MemoryRule(), MemoryRule(block_size=2)])
def test_a_gap_ends_the_search(rule: MemoryRule) -> None:
    instance = generate("arrival-model-1", 3, n=40).replaced(memory_rule=rule)
    close = hindsight.solve(instance, 60, gap=0.5)
    assert close.stop_reason == "gap"
    assert 0 < close.gap <= 0.5
    assert close.certified_gap <= 0.5
    # What was on its way when it was reached still arrives, and nothing is looked for after.
    assert sum(line.gap <= 0.5 for line in close.log) <= 3
