"""Cells run in a kernel: a policy edited in one, progress in its output, tables and pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parent.parent

CELLS = (
    """\
import instances
import online

SMALL = [instances.generate("arrival-model-1", seed, n=5) for seed in range(2)]


class WeightedLength(online.PriorityPolicy):
    def priority(self, request):
        return request.prediction.upper + 0.2 * request.prompt_length


def costs():
    trials = online.sweep(SMALL, [WeightedLength, "mc-sf"], "trials.jsonl")
    return [trial.cost for trial in trials], len(online.read_trials("trials.jsonl"))


costs()""",
    """\
class WeightedLength(online.PriorityPolicy):
    def priority(self, request):
        return -request.prompt_length


costs()""",
    "online.table(online.sweep(SMALL, [WeightedLength]))",
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
    # Of the second run only the trials of the edited policy are new.
    first, second = (found[-1].data["text/plain"] for found in runs)
    assert first.endswith(", 4)")
    assert second.endswith(", 6)")
    assert first[:-2] != second[:-2]
    assert "WeightedLength" in table[-1].data["text/html"]
    assert "<svg" in figure[-1].data["text/html"]
