"""Results compared with stored ones in tests/golden, to the digits printed.

`make golden` writes all of them again, `make golden WHAT=headroom` those of one test.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import log_files
import pytest
from forked_scripts import Ok
from golden import check_text

import instances
import online
from instances import LibraryEntry, ServiceLevel
from studies.reproduction import Setting, figures, find, record

LOGS = ("vllm_bench", "sglang_bench", "guidellm", "aiperf", "trtllm_bench")
TRIAL = ("instance", "policy", "params", "seed", "status", "total_latency", "evictions")
OPTIMUM = ("compared_with", "optimum_lower", "optimum_upper", "ratio_lower", "ratio_upper")
FEW = "uniform(n=5, maximum_length=8, memory_limit=20, count=4)"
POLICIES = "--policy smallest-volume-first --policy mc-sf --policy sglang --policy vllm"
DATA = Path(__file__).resolve().parents[1] / "data"
MOST_REQUESTS = 20
SLOW_SETS = ("j25-m1", "j25-m2", "worst")
TWINS = ("a25-figure-13", "j25-figure-2-model-2", "j25-figure-3-low-demand")
TWINS += ("j25-figure-10", "j25-figure-11")
"""Figures that another one measures with other numbers."""
LEVEL = ServiceLevel(latency=9)
"""Given to policies that go by deadlines where the instance has no level."""


def figure(value: Any) -> Any:
    """Round floats to ten significant digits: beyond them processors differ."""
    return float(f"{value:.10g}") if isinstance(value, float) else value


def reproductions() -> Iterator[Any]:
    for is_drawn, name in itertools.product([False, True], figures()):
        slow = pytest.mark.slow if is_drawn or name in TWINS else ()
        yield pytest.param(name, is_drawn, marks=slow)


@pytest.mark.parametrize(("name", "is_drawn"), [*reproductions()])
def test_reproductions(
    name: str, is_drawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_drawn:
        monkeypatch.setattr("studies.reproduction.figure.save", lambda drawn, path: path.touch())
    one, setting = find(name), Setting(quick=True, jobs=1)
    record(one, one.measure(setting), setting, tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".png", ".json"}
    check_text(f"reproductions/{name}.csv", (tmp_path / f"{name}.csv").read_text("utf-8"))


@pytest.mark.parametrize(
    ("file", "line"),
    [
        pytest.param("ratios.txt", "--demo", marks=pytest.mark.slow),
        ("ratios-few.txt", f"'generator:{FEW}' {POLICIES} --jobs 1 --time-limit inf"),
    ],
)
def test_ratios_to_both_optima(ok: Ok, file: str, line: str) -> None:
    check_text(file, ok(f"ratios {line}") + "\n" + ok(f"ratios {line} --preemption keep"))


def test_trials_of_smoke(ok: Ok, tmp_path: Path) -> None:
    ok(f"ratios {DATA / 'smoke.toml'} --jobs 1 --store smoke.jsonl")
    found = [
        ",".join(map(str, trial_row(one))) for one in online.read_trials(tmp_path / "smoke.jsonl")
    ]
    check_text("smoke.csv", "\n".join([",".join(TRIAL + OPTIMUM), *sorted(found), ""]))


def trial_row(trial: online.Trial) -> tuple[Any, ...]:
    policy, _, settings = trial.policy.partition("(")
    pairs = [pair.split("=") for pair in settings.removesuffix(")").split(", ") if pair]
    params = json.dumps({name: json.loads(value) for name, value in pairs})
    cost = "" if trial.cost is None else trial.cost
    ends = trial.ratio.ends if trial.ratio else ("", "")
    known = (trial.instance, policy, params, trial.seed, trial.status, cost, trial.evictions)
    return (*known, trial.compared_with, trial.lower, trial.upper, *ends)


@pytest.mark.parametrize("log", LOGS)
def test_headroom(ok: Ok, tmp_path: Path, log: str) -> None:
    """The measured and simulated part; bounds and schedules depend on the time they are given."""
    (tmp_path / log).write_text(getattr(log_files, log)(), encoding="utf-8")
    options = "--memory 1000 --batch-time llama-2-70b-2xa100 --json found.json"
    ok(f"headroom {log} {options}")
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    kept: dict[str, Any] = {
        name: found[name]
        for name in ("requests", "memory_limit", "batch_time", "load", "skipped_rows", "unfinished")
    }
    today, names = found["today"], ("policy", "error", "mean_latency", "reason")
    kept["savings"] = [f"today={today['policy']} mean_latency={figure(today['mean_latency'])}"]
    kept["policies"] = [
        " ".join(f"{n}={figure(one.get(n))}" for n in names) for one in found["policies"]
    ]
    kept["load"] = figure(kept["load"])
    check_text(f"headroom/{log}.json", json.dumps(kept, indent=1) + "\n")


def score(entry: LibraryEntry, policy: str) -> str:
    """Return the total latency of a policy, or why there is none."""
    problem, options = entry.instance, {"level": entry.level or LEVEL}
    fleet = {"router": "least-requests"} if problem.replicas > 1 else {}
    try:
        run = online.simulate(problem, policy, **fleet, **options)
    except instances.InvalidValueError as refusal:
        return str(refusal)
    return str(figure(run.total_latency)) if run.status == "completed" else run.status


SETS = [
    pytest.param(one.name, marks=pytest.mark.slow if one.name in SLOW_SETS else ())
    for one in instances.library().sets
]


@pytest.mark.parametrize("set_name", SETS)
def test_scores_on_the_library(set_name: str) -> None:
    policies = [name for name in online.policy_names() if name not in ("sorted-lp", "lp-swap")]
    found = io.StringIO()
    writer = csv.writer(found, lineterminator="\n")
    writer.writerow(["instance", *policies])
    (entries,) = (list(one) for one in instances.library().sets if one.name == set_name)
    for place, entry in enumerate(sorted(entries, key=lambda entry: (entry.n, entry.name))):
        if place == 0 or (entry.n <= MOST_REQUESTS and entry.instance.memory_limit < 10**6):
            writer.writerow([entry.name, *(score(entry, name) for name in policies)])
    check_text(f"library/{set_name}.csv", found.getvalue())
