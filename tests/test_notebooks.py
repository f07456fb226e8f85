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
