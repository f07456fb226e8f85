"""Tables of the commands in terminals of 80 and 120 columns: no name and no number is broken.

What a terminal shows is held against what the same command prints with ``--wide`` to a file.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from forked_scripts import ForkedScripts, command_line

import instances
from instances import Instance

EXPERIMENT = """
name = "quick"
solver = false
policies = ["fcfs", "smallest-volume-first"]
[[instances]]
label = "all at once"
generator = "uniform"
parameters = { n = 3, maximum_length = 6, memory_limit = 14 }
seeds = { count = 2 }
[[instances]]
label = "arrivals"
generator = "arrival-model-2"
parameters = { n = 3 }
seeds = { count = 1 }
"""
NARROW = """
[[predictions]]
name = "interval"
parameters = { lower = 1, upper = 1 }
"""
LOG = """\
arrived_at,num_prefill_tokens,num_decode_tokens
0.0,40,30
0.1,10,5
0.2,300,60
"""
POLICIES = "--policy smallest-volume-first --policy sarathi --jobs 1"
SETS = "worst-n3-* reduction c25-*-n20-* j25-m1-n10-* j25-m2-n10-* w25-mixed-n20-*"
COMMANDS = {
    "ratios": f"competitive_ratios small.json {POLICIES} --time-limit 0",
    "on-time": "competitive_ratios small.json --policy fcfs --policy edf --jobs 1 --slo e2e=7",
    "table": "table quick.sqlite",
    "table-trials": "table quick.sqlite --trials",
    "experiment": "run_experiment failing.toml --results failing.sqlite --jobs 1",
    "leaderboard": f"library leaderboard {SETS} {POLICIES} --results scores.sqlite",
    "library": "library list",
    "library-set": "library list w25",
    "headroom": "headroom log.csv --memory-limit 1000 --batch-time affine:0.02,2e-4 "
    "--policy smallest-volume-first --jobs 1 --time-limit 20",
    "fluid": "fluid_experiments gaps --seeds 2 --horizon 20 --horizon 40",
    "policies": "policies",
    "generators": "generate --list",
    "generate": "generate 'generator:arrival-model-1(count=2)' --out drawn",
    "adversaries": "adversary_tables --memory 68 --construction mc-sf-trap",
    "cascade": "adversary_tables cascade --rounds 3 --seeds 1",
    "fits": "fit_batch_time --of llama-2-70b-a100-tp2 --steps 2",
}
SLOW = {"headroom", "leaderboard"}
PROSE = {"compared_with", "what", "parameters", "reason", "of", "goal", "status", "why not"}


@pytest.fixture(scope="module")
def folder(forked: ForkedScripts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run: a log, an experiment to run and the results of another."""
    made = tmp_path_factory.mktemp("tables")
    small = Instance.from_arrays([4, 1, 2], [2, 6, 3], memory_limit=8, name="small[k=1,long=name]")
    instances.save(small, made / "small.json")
    failing = EXPERIMENT.replace("quick", "failing") + NARROW
    for name, text in (("log.csv", LOG), ("quick.toml", EXPERIMENT), ("failing.toml", failing)):
        (made / name).write_text(text, "utf-8")
    ran = forked.run("run_experiment", "quick.toml", "--results", "quick.sqlite", cwd=made)
    assert ran.returncode == 0, ran.stderr
    return made


@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in COMMANDS],
)
def test_no_name_and_no_number_is_broken(forked: ForkedScripts, folder: Path, command: str) -> None:
    arguments = command_line(*shlex.split(COMMANDS[command]))
    wide = forked.run(*arguments, "--wide", cwd=folder)
    assert wide.returncode in (0, 1), wide.stderr
    tables = _tables(wide.stdout)
    assert tables
    for width in (80, 120):
        shown = forked.run(*arguments, cwd=folder, columns=width)
        assert shown.returncode == wide.returncode, shown.stderr
        lines = shown.stdout.split("\n")
        assert max(map(len, lines)) <= width
        words = " ".join(shown.stdout.split())
        left_out = re.findall(r"left out: (.+?) \(--wide shows all columns\)", words)
        for table in tables:
            for heading, cells in table.items():
                if any(heading in one.split("; ") for one in left_out):
                    continue
                assert all(word in words for word in heading.split())
                for cell in cells:
                    pieces = cell.split() if heading in PROSE else [cell]
                    for piece in pieces:
                        assert any(_stands_in(piece, line) for line in lines), (heading, piece)


def _stands_in(piece: str, line: str) -> bool:
    """Whole, and not as a part of another name or number."""
    return re.search(rf"(?<!\S){re.escape(piece)}(?!\S)", line) is not None


def _tables(text: str) -> list[dict[str, list[str]]]:
    """The columns of each table of `Table.to_text`: below its headings stands a line of dashes."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines):
        if re.fullmatch(r"-+(  -+)*", line):
            rows = [lines[number - 1]]
            for row in lines[number + 1 :]:
                # A row ends within the columns, and never goes on where they have a gap.
                gaps = [match.start() for match in re.finditer("  ", line)]
                if not row or any(row[gap : gap + 2].strip() for gap in gaps):
                    break
                rows.append(row)
            spans = [match.span() for match in re.finditer("-+", line)]
            columns = ([row[slice(*span)].strip() for row in rows] for span in spans)
            found.append({heading: cells for heading, *cells in columns})
    return found
