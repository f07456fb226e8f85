"""What files and pages made of a log contain of it: figures, and neither texts nor names."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_scripts import Ok, Script
from log_files import sglang_bench, sglang_server, vllm_bench

import instances
import online

SECRET = "<i>SECRET</i>"
"""In place of prompts, answers, ids, names of models and workers, and of unknown columns."""

POLICY = """\
import online


class Shortest(online.PriorityPolicy):
    def priority(self, request):
        return request.prompt_length
"""
COLUMNS = "arrival=t, prompt=p, output=o, bad_rows=skip"
STUDY = f"""\
policy = ["fcfs", "rules.py:Shortest"]
sources = ["trace:log.csv(memory_limit=20, {COLUMNS})"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log, a study and a policy, in a folder whose name must not be shown."""
    own = tmp_path / "SECRET"
    own.mkdir()
    cells = [(0.0, 4, 3), (0.5, SECRET, 2), (1.0, 5, 2), (1.2, 3, 4)]
    rows = [f"{t},{p},{o},{SECRET}{o % 2},{SECRET}" for t, p, o in cells]
    (own / "log.csv").write_text("\n".join((f"t,p,o,pod,{SECRET}", *rows)), "utf-8")
    (own / "rules.py").write_text(POLICY, "utf-8")
    (own / "study.toml").write_text(STUDY, "utf-8")
    return own


def test_nothing_that_a_command_writes_has_texts_names_or_folders(
    ok: Ok, script: Script, folder: Path, tmp_path: Path
) -> None:
    log, policy = f"{folder / 'log.csv'}({COLUMNS}, worker=pod)", f"{folder / 'rules.py'}:Shortest"
    options = ("--memory", 20, "--batch-time", "affine:0.02,2e-4,1e-6", "--details")
    options = (*options, "--policy", policy, "--time-limit", 2)
    page, record = tmp_path / "page.html", tmp_path / "record.json"
    run = script("headroom", log, *options, "--out", page, "--json", record)
    assert run.returncode in (0, 1), run.stderr
    source = f"'trace:{folder / 'log.csv'}({COLUMNS}, memory_limit=20)'"
    printed = [
        *(run.stdout, run.stderr),
        ok(f"ratios {folder / 'study.toml'} --store s.jsonl --jobs 1 --out a.html --out a.csv"),
        ok(f"solve {source} --certificate proof.json --json solved.json"),
    ]
    made = [one for one in tmp_path.iterdir() if one.is_file()]
    assert len(made) == 7, made
    assert [one.name for one in made if b"SECRET" in one.read_bytes()] == []
    assert "SECRET" not in "".join(printed)
    assert "log.csv" in page.read_text("utf-8")


def test_where_a_policy_failed_is_told_without_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "always_fails.py"
    path.write_text(POLICY.replace("return ", "return 1 / 0 * "), "utf-8")
    instance = instances.Instance.from_arrays([1], [2], memory_limit=4)
    (record,) = online.sweep([instance], [f"{path}:Shortest"])
    assert record.reason == "ZeroDivisionError: division by zero (always_fails.py:6)"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (vllm_bench(generated_texts=[SECRET] * 5, model_id=SECRET, label=SECRET), []),
        (sglang_server().replace('"id": "r', f'"id": "{SECRET}'), []),
        (vllm_bench(block_size=SECRET, max_num_seqs="64"), [64]),
        (sglang_bench(server_info={"a": SECRET, "max_running_requests": 64}), [64]),
    ],
)
def test_a_log_read_has_no_texts_and_no_ids(text: str, settings: list[int], tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(text, "utf-8")
    assert SECRET in text
    log = instances.read_log(path)
    assert (len(log), list(log.settings.values())) == (4, settings)
    assert "SECRET" not in repr(vars(log)) + str(log)


def test_a_table_without_a_header_is_not_quoted_at_length(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{'a prompt ' * 99}{SECRET},12,13\n", "utf-8")
    with pytest.raises(ValueError, match="has no header line") as refused:
        instances.read_log(path)
    assert "SECRET" not in str(refused.value)
