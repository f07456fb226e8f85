"""What every command line refuses: status 2, one printable line, and no file left behind."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from forked_scripts import Refused, command_line
from trace_files import SIX_ROWS, WITH_GAPS

import instances
from instances import Instance

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:46.9951690,396,109
"""
FILES = {
    "azure.csv": AZURE,
    "log.csv": SIX_ROWS,
    "gaps.csv": WITH_GAPS,
    "rounds.csv": "tokens,kv_tokens,seconds\n1,2,0.1\n2,9,0.2\n5,4,0.3\n",
    "object.json": "{}",
    "keys.toml": 'polices = ["fcfs"]\nsources = ["generator:uniform"]\n',
    "types.toml": 'seed = ["x"]\nsources = ["generator:uniform"]\n',
    "empty.toml": 'policy = ["fcfs"]\n',
    "conversations.jsonl": '{"conversation": ["hello"]}',
}
M = "--memory 999 --batch-time affine:0.02,2e-4,1e-6"
REFUSED = f"""
llm_hindsight solv x.json | No such command 'solv'. Did you mean 'solve'?
solve --bogus | No such option: --bogus
solve | Missing argument 'SOURCE'
solve missing.json | missing.json: No such file or directory
solve ../log.csv | a trace or log is 'trace:../log.csv(memory_limit=M)'
solve seconds-azure-code-n20-00 | has arrivals in seconds, and no rounds
solve ../small.json --out ../taken.json | is a folder, not a file
solve ../small.json --out out.txt | --out = 'out.txt' does not end in .json
solve ../small.json --export x.lp --bound b.py:f | contradicts --export
solve ../small.json --goal x | goal = 'x' is not 'latency', 'makespan'
solve ../small.json --goal makespan --out x.json | --out contradicts --goal makespan
solve ../small.json --method relaxation --out x.json | contradicts --method relaxation
solve .. | ..: is a folder: give a file that is in it
solve ../large.json --export model.lp | non-zeros, about
solve ../large.json --crosscheck | non-zeros, about
generate | Missing argument 'SOURCE...'
generate generator:sqrt-n-adversary | it has no instance before a run
generate generator:uniform generator:uniform --out two | is 1 file(s) for 2 instances: give a folder
generate generator:uniform --out missing/one.json | cannot be written
generate generator:uniform --out q.mps | --out = 'q.mps' does not end in .json
generate generater:uniform | unknown kind of source 'generater'; did you mean 'generator'?
generate uniform | 'uniform' is a generator: write generator:uniform
generate generator:uniform(n=3 | unknown generator 'uniform(n=3'
generate generator:uniform(n) | = 'n' is not of the form name=value
generate generator:uniform(count=0) | generator 'uniform': count = 0 is below 1
generate generator:missing.py:mine | import = 'missing.py' cannot be read
generate generator:uniform(memory_rule=vlm) | unknown memory rule 'vlm'; did you mean 'vl
ratios generator:sqrt-n-adversary(memory_rule=blocks:4) | reacts to the policy, and counts memory in
generate trace:x.csv | needs memory_limit, in scaled tokens
generate trace:x.csv(memory=3) | unknown setting of trace:x.csv 'memory'; did you mean 'mem
solve library:worst-n7-0 | or 'worst-n7-01'? `show library` lists all
solve "generator:uniform(n=3, count=2)" | stands for 2 instances, and one is needed: docs/optimiser
solve generator:sqrt-n-adversary | reacts to the policy: it has no instance
ratios | give SOURCEs or --demo, and not both
ratios --demo --out out.txt | does not end in .csv or .md
ratios --demo --slo latenci=1 | unknown limit of --slo 'latenci'; did you mean 'latency'?
ratios generator:conversations(rate=5) | in seconds: give --batch-time
ratios generator:sqrt-n-adversary --replicas 2 | reacts to the policy: it has one machine
ratios --demo --batch-time a100 | mean 'llama-2-70b-2xa100' or 'llama-2-70b-a100-tp1'? `show pre
ratios --demo --optimum records | is not an instance of the library
ratios 'j25-m1-n10-*' --optimum records --preemption keep | 'keep' differs from 'never', which
ratios ../types.toml | Invalid value for '--seed': Input should be a valid integer
ratios ../empty.toml | sources is missing: write sources = [...]
ratios ../keys.toml | No such option: --polices
ratios trace:../azure.csv(round_seconds=1) --batch-time llama-2-70b-2xa100 | is not for windows
check polcy fcfs | Invalid value for 'KIND': 'polcy' is not
verify generator:uniform | is neither a file nor library:NAME
headroom ../log.csv --memory 5000 | needs the time to first token
headroom ../log.csv --batch-time affine:1,0,0 | does not say how many tokens the KV cache holds
headroom ../log.csv --batch-time affine:1,0,0 --memory 300 | (row 7: 790, row 4: 360 tokens)
headroom ../log.csv(too_long=drop) --batch-time affine:1,0,0 --memory 3 | small for 5 of 5
headroom ../log.csv(start_seconds=9) {M} | leaves none of 5
headroom ../gaps.csv {M} | num_decode_tokens is missing; 2 of 6 rows cannot be read; bad_rows='skip'
headroom generator:uniform {M} | headroom reads a log
headroom ../log.csv {M} --router random | needs several replicas
headroom ../log.csv {M} --slo speed=1 | unknown limit of --slo
headroom ../log.csv {M} --slo ttft=2s | give the number of seconds alone
headroom ../log.csv {M} --slo tpot=100ms | has a unit
headroom ../log.csv {M} --slo p99_ttft=2 | a p99 TTFT of 2 s is ttft=2 kept by 99 %
headroom ../log.csv {M} --json x.html | does not end in .json
headroom ../bench.json {M} --json ../link.json | is the file that is read
show xyz | unknown kind of names 'xyz'; known: policies, routers, generators
verify ../object.json | not a certificate
generate worst:mc-ff | unknown policy 'mc-ff'; did you mean 'mc-sf
adversaries --out t.html | --out = 't.html' does not end in .csv
benchmark solve -n 3 --family sideways | sideways
conversation_lengths ../object.json --out out.csv | row 1: has no list 'conversation'
conversation_lengths ../conversations.jsonl --out out.csv | row 1: a turn has no role or no content
reproduce | nothing to do
reproduce j25-figure-99 | unknown reproduction 'j25-figure-99'
reproduce --all j25-figure-3 | give names or --all, not both
reproduce j25-figure-3-low-demand --lengths lmsys=missing.csv | missing.csv
reproduce c25-figure-2 --vary memory=5 | c25-figure-2 has no memory to vary
reproduce j25-table-1 --vary memory=few | is not a number of tokens
"""
"""A command line and a part of what it says, one a line."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of inputs, good and bad, with an empty one in which commands run."""
    folder = tmp_path_factory.mktemp("refused")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    small = Instance.from_arrays([4, 1, 2], [2, 6, 3], memory_limit=8, name="small")
    instances.save(small, folder / "small.json")
    instances.save(instances.generate("mixed-long-short", 0, n=3000), folder / "large.json")
    (folder / "taken.json").mkdir()
    (folder / "bench.json").write_text("[]")
    (folder / "link.json").symlink_to(folder / "bench.json")
    (folder / "here").mkdir()
    return folder


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_bad_input_is_one_line_and_leaves_no_file(refused: Refused, files: Path, line: str) -> None:
    words, _, said = line.partition(" | ")
    before = {path: path.stat().st_mtime_ns for path in files.rglob("*")}
    found = refused(*command_line(*shlex.split(words)), cwd=files / "here")
    assert said in found
    assert found.isprintable()
    assert before == {path: path.stat().st_mtime_ns for path in files.rglob("*")}
