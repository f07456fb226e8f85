"""Make the files of the library's sets: instances/catalogue/sets.

What each instance is stands here; a file has the digest that comes out, and requests too where no
generator promises to draw them again. Names, once published, keep their instances: a digest that
changes is refused, unless its file is deleted first. Windows of traces need the folder with the two
files of AzurePublicDataset's LLM inference traces of 2023; without it their sets stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from instances import (
    Instance,
    InvalidValueError,
    MemoryRule,
    Workload,
    generate,
    read_trace,
    read_workload,
)
from instances.adversaries.sqrt_n_adversary import LONG_REQUEST, SqrtNAdversary
from instances.batch_time import preset
from instances.catalogue.library import FOLDER, FORMAT, SETS, VERSION
from instances.files import write_atomically
from instances.problem.arrival_source import Observation
from instances.problem.memory_rule import TOKENS, VLLM_BLOCKS
from online.commands.console import run, say

Problem = Instance | Workload
Entry = dict[str, Any]
Source = tuple[str, str]
"""What it is from, and the licence that its data stand under."""

J25 = "Jaillet, Jiang, Mellou, Molinaro, Podimata, Zhou, arXiv:2502.07115, Section 5.1"
W25 = "Wang, Ye, Zhou, 2025, Sections 7 and EC.4.2"
C25 = "Chen, Ye, Zhou, 2025, Section 5"
AZURE = (
    "AzurePublicDataset, Azure LLM Inference Dataset 2023, Microsoft "
    "(https://github.com/Azure/AzurePublicDataset); token counts rounded up to units as each "
    "instance's metadata say, arrivals to rounds"
)
OWN, CC_BY = "MIT", "CC-BY-4.0"
FROM_J25, FROM_W25, FROM_AZURE = (J25, OWN), (W25, OWN), (AZURE, CC_BY)

COUNTS = {10: 3, 15: 3, 20: 5, 25: 5, 30: 10, 40: 3, 50: 5, 60: 3, 75: 1}
"""Instances of each size of the arrival models."""

STORED = (
    "arrival-model-1",
    "arrival-model-2",
    "fcfs-cascade",
    "conversations",
    "lmsys-like",
    "mixed-long-short",
)
"""Requests are stored where NumPy does not promise to keep the streams that are drawn from, and
where the law that is drawn from takes seconds to make."""


def entry(
    name: str,
    problem: Problem,
    recipe: Entry | None = None,
    *,
    number: int = 0,
    goal: str = "total_latency",
    stored: bool = False,
    source: Source | None = None,
) -> Entry:
    """An instance as its file has it, with its requests where no recipe makes them again.

    Its source is its set's, unless it has one of its own.
    """
    found: Entry = {"name": f"{name}-n{len(problem)}-{number:02}", "n": len(problem)}
    if goal != "total_latency":
        found["goal"] = goal
    if goal == "seconds":
        found["batch_time"] = "llama-2-70b-2xa100"
    if source is not None:
        found["source"], found["licence"] = source
    found["digest"] = problem.digest
    if problem.memory_rule != TOKENS:
        found["memory_rule"] = asdict(problem.memory_rule)
    if recipe is not None:
        found["recipe"] = recipe
    if stored or recipe is None or recipe["generator"] in STORED:
        left_out = ("origin", "library")
        metadata = {k: v for k, v in problem.metadata.items() if k not in left_out}
        found["memory_limit"] = problem.memory_limit
        if metadata:
            found["metadata"] = metadata
        if problem.arrival_times.any():
            found["arrival_times"] = problem.arrival_times.tolist()
        found["prompt_lengths"] = problem.prompt_lengths.tolist()
        found["output_lengths"] = problem.output_lengths.tolist()
    return found


def drawn(
    name: str,
    generator: str,
    seed: int = 0,
    *,
    number: int | None = None,
    goal: str = "total_latency",
    memory_rule: MemoryRule = TOKENS,
    source: Source | None = None,
    **parameters: Any,
) -> Entry:
    """An instance of a generator; its number is its seed, unless it is given."""
    recipe = {"generator": generator, "seed": seed, "parameters": parameters}
    problem = generate(generator, seed, **parameters).under(memory_rule)
    number = seed if number is None else number
    return entry(name, problem, recipe, number=number, goal=goal, source=source)


def arrival_models(name: str, generator: str) -> Iterator[Entry]:
    """Paper size, by number of requests."""
    for n, count in COUNTS.items():
        for seed in range(count):
            yield drawn(name, generator, seed, n=n)


def published(name: str, generator: str) -> Iterator[Entry]:
    """Yield instances with as many requests as the model draws."""
    for seed in range(10):
        yield drawn(name, generator, seed)


def w25() -> Iterator[Entry]:
    """Families of variable prompts and outputs, then the stand-ins for conversations."""
    for family in ("uniform", "normal", "binomial", "exponential", "mixed"):
        for n in (20, 50, 100, *((200,) if family == "mixed" else ())):
            yield drawn(f"w25-{family}", family, n=n)
    # Units of tokens, and memory of which the requests want several times as much.
    for n in (50, 100, 200):
        yield drawn("w25-lmsys-like", "lmsys-like", n=n, token_scale=16, memory_limit=86)
        units: Entry = {"token_scale": 64, "memory_limit": 257}
        yield drawn("w25-mixed-long-short", "mixed-long-short", n=n, **units)
    yield drawn("w25-lmsys-like", "lmsys-like", n=1000)
    yield drawn("w25-mixed-long-short", "mixed-long-short", n=2000)


def c25() -> Iterator[Entry]:
    """Families whose outputs are known by an interval."""
    families = ("two-point", "geometric", "linearly-weighted-geometric")
    for family in families:
        name = f"c25-{family.removesuffix('-geometric')}"
        for n, limit in ((20, 30), (50, 60), (200, 200)):
            upper: Entry = {} if family == "two-point" else {"upper": 20}
            for seed in (0, 1) if n < 200 else (0,):
                yield drawn(name, family, seed, n=n, memory_limit=limit, **upper)


def adversary() -> Iterator[Entry]:
    """Traps, cascades and adversaries of the papers, small and larger."""
    for trap in ("mc-sf-trap", "mc-sf-total-trap"):
        for sizes, limit in (("printed", 16), ("balanced", 36), ("steep", 36)):
            yield drawn(f"adversary-{trap}-{sizes}", trap, memory_limit=limit, sizes=sizes)
    for scale in (4, 10, 20):
        yield drawn("adversary-a-max-trap", "a-max-trap", scale=scale)
    for limit in (16, 64, 256):
        yield entry("adversary-sqrt-n", sqrt_n(limit))
    for rounds in (8, 25):
        for example in ("one-type", "two-types"):
            parameters: Entry = {
                "example": example,
                "rounds": rounds,
                "convention": "token-per-round",
            }
            yield drawn("adversary-cascade-" + example, "fcfs-cascade", **parameters)
    for scale, limit in ((2, 24), (5, 40), (20, 80)):
        yield drawn(
            "adversary-two-point-worst-case",
            "two-point-worst-case",
            scale=scale,
            memory_limit=limit,
        )
    for n in (20, 100):
        yield drawn("adversary-identical", "identical-requests", n=n)


def sqrt_n(memory_limit: int) -> Instance:
    """Return what the adversary releases to a policy that starts the long request at once."""
    source = SqrtNAdversary(memory_limit)
    source.reset(np.random.default_rng(0))
    arrivals = [*source.release(0)]
    source.observe(Observation(0, 0, started=(LONG_REQUEST,)))
    told = source.next_arrival()
    assert told is not None
    arrivals += source.release(told)
    return Instance.from_arrays(
        [one.prompt_length for one in arrivals],
        [one.output_length for one in arrivals],
        [int(one.time) for one in arrivals],
        memory_limit=memory_limit,
        metadata={"adversary": "sqrt-n-adversary, its long request started at round 0"},
    )


def worst() -> Iterator[Entry]:
    """Found by searches for worst cases: the file is the only source."""
    yield from json.loads((FOLDER / "sets" / "worst.json").read_text("utf-8"))["entries"]


def reduction() -> Iterator[Entry]:
    """Partitions asked as schedules; those without one are found by trying seeds."""
    for groups, target in ((3, 40), (5, 60), (8, 100)):
        for planted in (True, False):
            told = "yes" if planted else "drawn"
            parameters: Entry = {"groups": groups, "target": target, "planted": planted}
            recipe = {"generator": "three-partition", "seed": 0, "parameters": parameters}
            instance = generate("three-partition", 0, **parameters)
            yield entry(f"reduction-three-partition-{told}", instance, recipe, stored=True)
    for n, largest in ((10, 30), (20, 60)):
        for told in ("yes", "no"):
            seed, parameters = _partition(n, largest, told == "yes")
            recipe = {"generator": "partition-makespan", "seed": seed, "parameters": parameters}
            instance = generate("partition-makespan", seed, **parameters)
            name = f"reduction-partition-{told}"
            yield entry(name, instance, recipe, goal="makespan", stored=True)


def _partition(n: int, largest: int, wanted: bool) -> tuple[int, Entry]:
    """The first seed whose numbers have two parts of equal sum, or have none.

    Many small numbers always have: those without are large beside how many there are.
    """
    for seed in range(10_000):
        parameters = {"n": n, "largest": largest if wanted else 50 * 2**n // n}
        numbers = generate("partition-makespan", seed, **parameters).metadata["reduction"][
            "numbers"
        ]
        half, sums = sum(numbers) // 2, 1
        for number in numbers:
            sums |= sums << number
        if bool(sums >> half & 1) is wanted:
            return seed, parameters
    raise InvalidValueError(None, "n", n, "gave no such numbers")


def azure(name: str, path: Path) -> Iterator[Entry]:
    """Windows with arrivals: [J25]'s memory in units of 64 tokens, as in docs/instances.md."""
    units: Entry = {"memory_limit": 257, "token_scale": 64, "round_seconds": 3.2}
    for n in (20, 50, 80, 200, 500, 1000, 2000):
        for number in (0, 1) if n <= 80 else (0,):
            start = 1200 + 600 * number
            instance, _ = read_trace(path, start_seconds=start, max_requests=n, **units)
            yield entry(name, instance, number=number)


def blocks(traces: Path) -> Iterator[Entry]:
    """Engine memory: blocks of tokens, the newest token stored next."""
    rule = MemoryRule(block_size=4, emitted_token="next")
    for n in (10, 15, 20, 30):
        for model in (1, 2):
            name, generator = f"blocks-j25-m{model}", f"arrival-model-{model}"
            yield drawn(name, generator, n=n, memory_limit=48, memory_rule=rule, source=FROM_J25)
    yield drawn(
        "blocks-lmsys-like",
        "lmsys-like",
        n=50,
        memory_limit=2048,
        memory_rule=VLLM_BLOCKS,
        source=FROM_W25,
    )
    for kind, n in (("conv", 50), ("conv", 200), ("code", 50)):
        instance, _ = read_trace(
            traces / f"azure_llm_inference_2023_{kind}.csv",
            memory_limit=16_384,
            memory_rule=VLLM_BLOCKS,
            start_seconds=1200,
            max_requests=n,
        )
        yield entry(f"blocks-azure-{kind}", instance, source=FROM_AZURE)


def preemptive() -> Iterator[Entry]:
    """Instances of the arrival models, for the preemptive optimum."""
    for model in (1, 2):
        for n in (10, 15, 20, 30):
            name, generator = f"preemptive-j25-m{model}", f"arrival-model-{model}"
            yield drawn(name, generator, n=n, goal="preemptive_total_latency")


def seconds(traces: Path) -> Iterator[Entry]:
    """Workloads whose rounds last as long as a preset says."""
    limit = preset("llama-2-70b-2xa100").memory_limit
    for kind, sizes in (("conv", (20, 50, 200)), ("code", (20, 50, 200))):
        path = traces / f"azure_llm_inference_2023_{kind}.csv"
        for n in sizes:
            window: Entry = {"start_seconds": 1200, "max_requests": n}
            workload, _ = read_workload(path, memory_limit=limit, **window)
            yield entry(f"seconds-azure-{kind}", workload, goal="seconds", source=FROM_AZURE)
    parameters: Entry = {"rate": 5.0, "goal": "seconds", "source": FROM_W25}
    for n in (50, 200):
        yield drawn("seconds-conversations", "conversations", n=n, **parameters)


def service(traces: Path) -> Iterator[Entry]:
    """Loads near the knee: 40 to 80 % on time if the smallest volume comes first."""
    for kind, level in (
        (("j25-m1", "arrival-model-1", 20), {"latency": 50}),
        (("j25-m1", "arrival-model-1", 40), {"latency": 100}),
        (("j25-m2", "arrival-model-2", 20), {"latency": 60}),
        (("j25-m2", "arrival-model-2", 50), {"latency": 120, "first_token": 90}),
        (("w25-mixed", "mixed", 50), {"latency": 8}),
        (("w25-uniform", "uniform", 50), {"latency": 160}),
    ):
        family, generator, n = kind
        source = FROM_W25 if "w25" in family else FROM_J25
        made = drawn(f"service-{family}", generator, 20, number=0, n=n, source=source)
        yield made | late(**level)
    parameters: Entry = {"n": 50, "memory_limit": 20, "upper": 20, "source": (C25, OWN)}
    yield drawn("service-c25-geometric", "geometric", 20, number=0, **parameters) | late(latency=8)
    paths = {kind: traces / f"azure_llm_inference_2023_{kind}.csv" for kind in ("conv", "code")}
    units: Entry = {"memory_limit": 257, "token_scale": 64, "round_seconds": 3.2}
    instance, _ = read_trace(paths["conv"], start_seconds=2400, max_requests=50, **units)
    yield entry("service-azure-conv", instance, source=FROM_AZURE) | late(latency=9)
    limit = preset("llama-2-70b-2xa100").memory_limit
    for trace, n, start, level in (
        ("conv", 30, 1800, {"latency": 15}),
        ("conv", 50, 2400, {"latency": 25}),
        ("code", 50, 2400, {"latency": 12, "first_token": 6}),
    ):
        window: Entry = {"start_seconds": start, "max_requests": n}
        workload, _ = read_workload(paths[trace], memory_limit=limit, **window)
        name = f"service-seconds-azure-{trace}"
        yield entry(name, workload, goal="seconds", source=FROM_AZURE) | late(**level)
    parameters = {"n": 40, "rate": 20.0, "memory_limit": 2000, "source": FROM_W25}
    name = "service-seconds-conversations"
    made = drawn(name, "conversations", 1, number=0, goal="seconds", **parameters)
    yield made | late(latency=8, first_token=4)


def late(**limits: float) -> Entry:
    """Return the goal of an instance with a service level."""
    return {"goal": "late_requests", "level": limits}


def write(name: str, title: str, source: str, licence: str, entries: Iterator[Entry]) -> None:
    """A set as a line for each instance, which a diff can show."""
    listed = [*entries]
    path = FOLDER / "sets" / f"{name}.json"
    before = json.loads(path.read_text("utf-8"))["entries"] if path.exists() else []
    fixed = ("digest", "level")
    known = {one["name"]: [one.get(key) for key in fixed] for one in before}
    for one in listed:
        now = [one.get(key) for key in fixed]
        if (then := known.pop(one["name"], now)) != now:
            raise InvalidValueError(one["name"], "digest and level", now, f"were {then}")
    if known:
        raise InvalidValueError(name, "names", [*known], "are gone")
    names = {one["name"] for one in listed}
    assert len(names) == len(listed), name
    head = {"format": FORMAT, "version": VERSION, "name": name, "title": title}
    head |= {"source": source, "licence": licence}
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in listed)
    told = json.dumps(head, separators=(",", ":"))
    write_atomically(path, f'{told[:-1]},"entries":[\n{lines}\n]}}\n')
    say(f"{name}: {len(listed)} instances, {path.stat().st_size:,} bytes")


def make(
    traces: Annotated[
        Path | None,
        typer.Option(help="Folder of azure_llm_inference_2023_conv.csv and ..._code.csv."),
    ] = None,
) -> None:
    """Make the files of the library's sets."""
    made: dict[str, tuple[str, str, str, Iterator[Entry]]] = {}
    for model, about in ((1, "all at round 0"), (2, "Poisson arrivals")):
        name, generator = f"j25-m{model}", f"arrival-model-{model}"
        title = f"Arrival Model {model}: {about}"
        made[name] = (f"{title}, by size", J25, OWN, arrival_models(name, generator))
        name += "-published"
        made[name] = (f"{title}, as many as it draws", J25, OWN, published(name, generator))
    made["w25"] = ("Prompts and outputs vary, all at round 0", W25, OWN, w25())
    made["c25"] = ("Outputs known by an interval, all at round 0", C25, OWN, c25())
    papers = "[J25] Theorem 4.1, [W25] Theorems 1 and EC.1, [C25] Theorems 3.4 and 8.6, [A25]"
    made["adversary"] = ("Traps, cascades and adversaries of the papers", papers, OWN, adversary())
    search = "llm-hindsight generate worst:POLICY, docs/worst-case.md"
    made["worst"] = ("The worst found for each policy", search, OWN, worst())
    reductions = "[W25] Theorems 2 and EC.2"
    made["reduction"] = ("Partition as scheduling", reductions, OWN, reduction())
    made["preemptive"] = ("Arrival models with preemption", J25, OWN, preemptive())
    if traces is not None:
        for kind in ("code", "conv"):
            path = traces / f"azure_llm_inference_2023_{kind}.csv"
            title = f"Windows of the Azure {kind} trace, in units of 64 tokens"
            made[f"azure-{kind}"] = (title, AZURE, CC_BY, azure(f"azure-{kind}", path))
        title = "Memory in blocks, as engines have it"
        made["blocks"] = (title, f"{J25}; {W25}; {AZURE}", CC_BY, blocks(traces))
        title = "Rounds that last as long as their batch"
        made["seconds"] = (title, f"{W25}; {AZURE}", CC_BY, seconds(traces))
        title = "Requests on time, in rounds and in seconds"
        made["service"] = (title, f"{J25}; {W25}; {C25}; {AZURE}", CC_BY, service(traces))
    for name in SETS:
        if name in made:
            write(name, *made[name])


if __name__ == "__main__":
    run(make)
