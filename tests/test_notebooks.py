"""The notebooks in docs/ run from top to bottom in a kernel, and are stored as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "notebooks"


def executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Outputs of each cell with some; an error in any is raised here."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(folder))
    notebook = nbformat.read(FOLDER / name, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()
    return {cell.source: cell.outputs for cell in notebook.cells if cell.get("outputs")}


def complaints(outputs: dict[str, list[Any]]) -> list[str]:
    return [one.text for found in outputs.values() for one in found if one.get("name") == "stderr"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_own_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = executed("own_policy.ipynb", tmp_path, monkeypatch)
    runs = [found for source, found in outputs.items() if "run_experiment(" in source]
    # Each shows its progress in one output; of the second only the edited policy's trials are new.
    for found, computed in zip(runs, ("computed=44,", "computed=11,"), strict=True):
        warned, shown, result = found
        assert "UserWarning: policy 'WeightedLength': defined in no file, so" in warned.text
        assert [shown.output_type, result.output_type] == ["display_data", "execute_result"]
        assert computed in result.data["text/plain"]
    assert complaints(outputs) == [found[0].text for found in runs]
    latex = outputs["print(read_results(results).ratios().to_latex())"][0].text
    assert "WeightedLength" in latex
    assert "\\bottomrule" in latex
    last = [found[-1] for found in outputs.values() if "data" in found[-1]]
    figures = [one.data.get("text/html", "") for one in last]
    assert sum("<svg" in figure for figure in figures) >= 3


def test_own_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = executed("own_cut.ipynb", tmp_path, monkeypatch)
    assert complaints(outputs) == []
    assert any("Verdict(lower_bound=34" in str(found) for found in outputs.values())
