"""The notebooks in docs/ are those of their pages, stored without outputs, and run in a kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from studies.notebooks import STORIES, notebook_of

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "notebooks"

PAGE = """\
# A page, with a [link](model.md#waiting) and [another](https://example.org)

```python title="six.py"
x = 6
```

Text.

```python
import six

print(six.x)
```

```text
6
```

```console
$ echo one
one
$ echo two  # exits 0
two
```

<!-- not run: takes a minute; the notebook runs it -->

```console
$ sleep 60
```

<!-- not run: needs a log -->

```sh
llm-hindsight headroom
```
"""
"""One block of each kind."""


def test_a_page_becomes_cells() -> None:
    notebook = nbformat.reads(notebook_of(PAGE), as_version=4)
    nbformat.validate(notebook)
    top = "# A page, with a [link](../model.md#waiting) and [another](https://example.org)"
    left = "<!-- not run: needs a log -->\n\n```sh\nllm-hindsight headroom\n```"
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        ("markdown", top),
        ("code", "%%writefile six.py\nx = 6"),
        ("markdown", "Text."),
        ("code", "import six\n\nprint(six.x)"),
        ("code", "!echo one\n!echo two  # exits 0"),
        ("code", "!sleep 60"),
        ("markdown", left),
    ]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_stored_as_written_from_its_page(path: Path) -> None:
    # If this fails: python scripts/write_notebooks.py
    assert path.stem in STORIES
    page = ROOT / "docs" / f"{path.stem}.md"
    assert path.read_text("utf-8") == notebook_of(page.read_text("utf-8"))


def test_every_story_has_its_notebook() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(STORIES)


def executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a notebook with its own `llm-hindsight`; return all that its cells show."""
    command = folder / "bin" / "llm-hindsight"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m llm_hindsight "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(command.parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(folder))
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=250, resources=resources).execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    return "".join(one.get("text", "") for one in outputs)


SHOWN = {
    "researcher": ["6 of 6 checks passed", "2.2000 on M=20", "M = 180, HalfPrompt: 6.9639 optimal"],
    "engineer": ["no scheduler behind any router could save more than", "3: vllm 94.0 %"],
    "optimiser": ["3 of 3 checks passed", "verified lower bound  10714"],
}
"""Lines that prove that commands ran as well as Python; the pages' tests compare the rest."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_runs_in_a_kernel(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = executed(name, tmp_path, monkeypatch)
    assert [line for line in SHOWN[name] if line not in shown] == []
    assert (tmp_path / f"{name}.svg").stat().st_size < 120_000


CELLS = (
    """\
import online
from online.experiment import Experiment, Family, read_results, run_experiment


class WeightedLength(online.PriorityPolicy):
    def priority(self, request):
        return request.prediction.upper + 0.2 * request.prompt_length


def experiment():
    families = [Family("arrival-model-1", {"n": 5}, seeds=range(2))]
    return Experiment("weighted length", families, [WeightedLength, "mc-sf"])


run_experiment(experiment(), "results.sqlite", progress=True)""",
    """\
class WeightedLength(online.PriorityPolicy):
    def priority(self, request):
        return request.volume


run_experiment(experiment(), "results.sqlite", progress=True)""",
    "read_results('results.sqlite')",
    "import instances\n\nonline.simulate(instances.generate('uniform', n=4), WeightedLength())",
)


@pytest.mark.slow
def test_a_policy_edited_in_a_cell_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in CELLS])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()
    *runs, table, figure = (cell.outputs for cell in notebook.cells)
    # Each shows its progress in one output; of the second only the edited policy's trials are new.
    for found, computed in zip(runs, ("computed=6,", "computed=2,"), strict=True):
        warned, progress, result = found
        assert "UserWarning: policy 'WeightedLength': defined in no file, so" in warned.text
        assert [progress.output_type, result.output_type] == ["display_data", "execute_result"]
        assert computed in result.data["text/plain"]
    assert "WeightedLength" in table[-1].data["text/html"]
    assert "<svg" in figure[-1].data["text/html"]
