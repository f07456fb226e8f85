"""What README, CONTRIBUTING, docs/ and the docstrings show is run here, in a copy of the project.

A ``python`` block is either plain code or a ``>>>`` session; blocks and commands of a page run in
order, the Python ones in one fresh interpreter. What plain code prints is compared with the
``text`` block that directly follows it, if there is one. In a ``console`` block each line ``$
command`` is run, and the lines up to the next ``$`` are what it must print; ``# exits 2`` at the
end of a command says with which status it ends. In a ``sh`` block each line is a command, to be
copied as it stands, and no output is shown. ``...`` stands for anything, and white space counts as
one space. Commands that build the environment are not run, but a ``make`` target must
exist. A block with a title, ```` ```python title="my_rules.py" ````, is written to that file, for
the blocks after it. A block below the comment ``<!-- not run: reason -->`` is left out.

With ``INSTALLED_PYTHON`` set to an interpreter, blocks and commands run with what is installed
there, in an empty folder: that is how ``make release-check`` tries these pages with the wheel.
"""

from __future__ import annotations

import doctest
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from notebooks import notebook_of

from generated import expanded, public_names
from instances.problem.conditions import conditions
from online import policy_names
from studies.pages import TABLES, TABLES_HERE

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("instances", "hindsight", "online")
PAGES = [
    *(page for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md") if page.exists()),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# What Python and numba compiled comes along: it is valid for sources of the same date and size, and
# half a second of work for each command, twenty for each copy that solves. What is half written is
# left out.
LEFT_OUT = shutil.ignore_patterns(
    "build", "dist", ".git", ".*_cache", "*.pyc.*", "*.nb[ic].*", ".hypothesis", ".venv*", "results"
)
# Written once and never changed, so that a copy may be the same file.
UNCHANGED = {".nbc", ".nbi", ".pyc", ".xz"}
# Seconds of processor time all: the other pages run with `make docs-test` and `make test-all`.
FAST_PAGES = {"developing.md", "glossary.md", "library.md", "policies.md", "prefix-caching.md"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECONDS = 280
SHELLS = ("console", "bash", "sh", "shell")
BUILDS_THE_ENVIRONMENT = re.compile(r"(git clone|cd|(\S*python\S* -m )?pip install|\S* -m venv)\b")
INSTALLED_PYTHON = os.environ.get("INSTALLED_PYTHON")
PYTHON = INSTALLED_PYTHON or sys.executable
FENCE = re.compile(
    r'^(?P<indent> *)(?P<mark>`{3,})(?P<language>[\w-]*)(?: title="(?P<title>[^"]+)")?[^`]*$'
)
NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>.+) -->$")

DRIVER = r"""
import contextlib, doctest, io, json, pathlib, re, subprocess, sys

options, pages = json.load(sys.stdin)
failures = []


def compare(step, got):
    wanted = step["shown"]
    if wanted is not None and not doctest.OutputChecker().check_output(wanted, got, options):
        place = f"{page}:{step['line']}: {step['text'].strip()}"
        failures.append(f"{place}\nshown\n{wanted}\nbut printed\n{got}")


def run_command(step):
    ran = subprocess.run(
        ["bash", "-c", step["text"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    if ran.returncode == step["status"]:
        # On a slow machine commands say every ten seconds how far they are.
        return compare(step, re.sub(r"(?m)^\d+ s: .*\n", "", ran.stdout))
    failures.append(f"{page}:{step['line']}: {step['text']}\nexits {ran.returncode}\n{ran.stdout}")


def run_python(step):
    global namespace
    code, line = step["text"], step["line"]
    printed = io.StringIO()
    if code.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(code, namespace, page, page, line)
        runner = doctest.DocTestRunner(optionflags=options)
        runner.run(test, out=printed.write, clear_globs=False)
        namespace = test.globs
        if runner.failures:
            failures.append(printed.getvalue())
        return
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * line + code, page, "exec"), namespace)
    compare(step, printed.getvalue())


for page, steps in pages:
    namespace = {"__name__": "__main__"}
    for step in steps:
        if "status" in step:
            run_command(step)
        elif step["title"]:
            pathlib.Path(step["title"]).write_text(step["text"], encoding="utf-8")
        else:
            run_python(step)
print(json.dumps(failures))
"""


@dataclass
class Block:
    """A fenced block: ``line`` is the number of lines of the page before its text."""

    language: str
    text: str
    line: int
    title: str | None = None
    shown: str | None = None
    not_run: str | None = None


def blocks_of(markdown: str) -> list[Block]:
    found: list[Block] = []
    lines = markdown.splitlines()
    reason, previous, number = None, None, 0
    while number < len(lines):
        line = lines[number]
        opening = FENCE.match(line)
        if opening is None:
            if line.strip():
                comment = NOT_RUN.match(line.strip())
                reason, previous = comment and comment["reason"], None
            number += 1
            continue
        start = number = number + 1
        while number < len(lines) and lines[number].strip() != opening["mark"]:
            number += 1
        indent = len(opening["indent"])
        text = "".join(f"{inner[indent:]}\n" for inner in lines[start:number])
        block = Block(opening["language"], text, start, opening["title"], not_run=reason)
        if block.language == "text" and previous is not None and previous.language == "python":
            previous.shown = text
        found.append(block)
        reason, previous = None, block
        number += 1
    return found


@dataclass
class Command:
    line: int
    text: str
    shown: str | None
    status: int


def commands_of(block: Block) -> list[Command]:
    found: list[Command] = []
    continued = False
    prompt = "" if block.language == "sh" else "$ "
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if continued:
            found[-1].text += "\n" + line.removeprefix("> ")
        elif line.strip() and line.startswith(prompt):
            found.append(Command(number, line.removeprefix(prompt), "", 0))
        elif found:
            found[-1].shown = f"{found[-1].shown}{line}\n"
        elif line.strip():
            raise AssertionError(f"line {number}: a command starts with '$ ', unlike {line!r}")
        continued = bool(found) and not found[-1].shown and line.endswith("\\")
    for command in found:
        status = re.search(r"#\s*exits\s+(\d+)\s*$", command.text)
        command.status = int(status[1]) if status else 0
        dry = command.text.startswith("make")
        command.text = re.sub("^make", "make --dry-run", command.text)
        if dry or not (command.shown or "").strip():
            command.shown = None
    return found


@pytest.fixture(scope="session")
def compiled() -> None:
    if not INSTALLED_PYTHON:
        subprocess.run([sys.executable, "-m", "hindsight.compile_kernels"], check=True)


def copied(source: str, target: str) -> None:
    """The file, or another name of it where nothing writes to it."""
    try:
        (os.link if Path(source).suffix in UNCHANGED else shutil.copy2)(source, target)
    except OSError:  # a link to another disk
        shutil.copy2(source, target)


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the project whose .venv is the environment of these tests; its command runs."""
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("compiled")
    copy = tmp_path / "project"
    if INSTALLED_PYTHON:
        copy.mkdir()
        return copy
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, copy_function=copied)
    (copy / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    command = tmp_path / "bin" / "llm-hindsight"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m llm_hindsight "$@"\n')
    command.chmod(0o755)
    return copy


def environment(project: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join(
            [str(project.parent / "bin"), str(Path(PYTHON).parent), os.environ["PATH"]]
        ),
        "PYTHONPATH": "" if INSTALLED_PYTHON else str(project),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


def steps_of(page: Path) -> list[dict[str, object]]:
    """What a page has done, in order: files, Python, commands."""
    steps: list[dict[str, object]] = []
    for block in blocks_of(page.read_text("utf-8")):
        if block.not_run:
            continue
        if block.title or block.language == "python":
            steps.append(vars(block))
        elif block.language in SHELLS:
            steps += [
                vars(command)
                for command in commands_of(block)
                if not BUILDS_THE_ENVIRONMENT.match(command.text)
            ]
    return steps


REFERENCE = ROOT / "docs" / "reference"
RUN = [
    pytest.param([page], id=str(page.relative_to(ROOT)), marks=pytest.mark.slow)
    for page in PAGES
    if any(block.language in {"python", *SHELLS} for block in blocks_of(page.read_text("utf-8")))
    and page.parent != REFERENCE
    and page.name not in FAST_PAGES
]
# Many short pages: one interpreter, which loads the packages once.
REFERENCES = sorted(REFERENCE.glob("*.md"))
RUN.append(pytest.param(REFERENCES, id="docs/reference", marks=pytest.mark.slow))
RUN.append(pytest.param([page for page in PAGES if page.name in FAST_PAGES], id="fast"))


@pytest.mark.parametrize("pages", RUN)
def test_what_a_page_shows_is_what_comes_out(pages: list[Path], project: Path) -> None:
    process = subprocess.run(
        [PYTHON, "-c", DRIVER],
        input=json.dumps([OPTIONS, [[page.name, steps_of(page)] for page in pages]]),
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert process.returncode == 0, process.stderr
    failures = json.loads(process.stdout.splitlines()[-1])
    assert not failures, "\n".join(failures)


def test_the_conditions_of_an_answer_are_explained_in_its_words() -> None:
    text = " ".join((ROOT / "docs" / "model.md").read_text("utf-8").split())
    assert all(conditions(one, preempts=one) in text for one in (False, True))


def test_pages_with_tables_of_the_site_say_where_they_go() -> None:
    texts = {page.name: page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")}
    found = {name: text.count(TABLES_HERE) for name, text in texts.items() if TABLES_HERE in text}
    assert found == dict.fromkeys(TABLES, 1)


def test_a_notebook_has_the_files_the_code_and_the_commands_of_its_page() -> None:
    page = (
        'A\n```python title="a.py"\nx = 1\n```\nB\n```console\n$ ls\na.py\n```\n```text\n1\n```\n'
    )
    sources = [cell["source"] for cell in json.loads(notebook_of(page))["cells"]]
    assert sources == ["A", "%%writefile a.py\nx = 1", "B", "!ls", "```text\n1\n```"]


def test_every_public_name_has_one_place_in_the_reference() -> None:
    # `make docs` fails if a name of the reference does not exist.
    pages = "\n".join(expanded(page.read_text("utf-8")) for page in REFERENCE.glob("*.md"))
    shown = re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE)
    assert len(shown) == len({*shown})
    assert {*public_names()} - {*shown} == set()
    assert {*policy_names()} <= {*re.findall(r"^### (\S+)$", pages, flags=re.MULTILINE)}


def test_every_policy_is_in_readme_and_on_a_page_of_policies() -> None:
    for pages in (["README.md"], ["docs/policies.md", "docs/fluid.md", "docs/continuous-time.md"]):
        text = "".join((ROOT / page).read_text("utf-8") for page in pages)
        assert [name for name in policy_names() if f"`{name}`" not in text] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstring_examples(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in sorted((ROOT / package).rglob("*.py")):
        if ">>>" in path.read_text("utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            module = importlib.import_module(name.removesuffix(".__init__"))
            tried = doctest.testmod(module, optionflags=OPTIONS)
            assert (tried.failed, tried.attempted > 0) == (0, True), name
