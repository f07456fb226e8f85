"""The library of instances: names, digests, what is stored and what is drawn again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import instances
from instances import Instance, Workload

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "instances" / "catalogue"
LIBRARY = instances.library()

GOLDEN = "129646765642cdf5"
"""Of all names and digests, in order: a name that is published keeps its instance for ever."""

GOLDEN_FOUND = "15517d485be5e6fe"
"""Of the instances of the set `worst` that later searches found."""

GOLDEN_SERVICE = "a7801f1cdfea4944"
"""Of the set `service`, with its levels."""


def test_names_and_digests_are_those_published() -> None:
    own, found = LIBRARY.matching("service"), LIBRARY.matching("worst")[30:]
    others = [one for one in LIBRARY if one.set != "service" and one not in found]
    told = "".join(f"{entry.name} {entry.goal} {entry.digest}\n" for entry in others)
    assert hashlib.sha256(told.encode()).hexdigest()[: len(GOLDEN)] == GOLDEN
    assert (len(others), len(found)) == (244, 24)
    told = "".join(f"{entry.name} {entry.goal} {entry.digest}\n" for entry in found)
    assert hashlib.sha256(told.encode()).hexdigest()[: len(GOLDEN)] == GOLDEN_FOUND
    told = "".join(f"{entry.name} {entry.level} {entry.digest}\n" for entry in own)
    assert hashlib.sha256(told.encode()).hexdigest()[: len(GOLDEN)] == GOLDEN_SERVICE


def test_only_the_set_service_has_levels() -> None:
    assert {entry.set for entry in LIBRARY if entry.level is not None} == {"service"}
    own = LIBRARY.matching("service")
    assert all(entry.level is not None and 20 <= entry.n <= 50 for entry in own)
    assert [isinstance(entry.instance, Instance) for entry in own] == [True] * 8 + [False] * 4
    (mixed,) = {str(entry.level) for entry in LIBRARY.matching("service-*w25-mixed*")}
    assert mixed == "latency <= 8"


def test_every_instance_has_the_digest_its_file_says() -> None:
    for entry in LIBRARY:
        assert entry.instance.digest == entry.digest
        assert len(entry.instance) == entry.n
        assert isinstance(entry.instance, Workload) == (entry.batch_time is not None)
        told = entry.instance.name or ""
        assert told.removesuffix(" (synthetic)") == entry.name
        assert ("like" in entry.name or "mixed-long" in entry.name) <= told.endswith("(synthetic)")


def test_what_is_stored_is_what_its_recipe_draws() -> None:
    """Of streams that NumPy may change: then this fails, and the instances stay what they are."""
    for name in ("j25-m1-n10-02", "j25-m2-n30-04", "j25-m2-published-n*-00", "preemptive-*-n15-*"):
        for entry in LIBRARY.matching(name):
            assert "output_lengths" in entry._stored
            assert entry.recipe is not None
            recipe = entry.recipe
            drawn = instances.generate(recipe["generator"], recipe["seed"], **recipe["parameters"])
            assert drawn.digest == entry.digest


def test_it_is_asked_by_name_set_and_pattern() -> None:
    entry = instances.library()["j25-m1-n50-03"]
    assert LIBRARY["j25-m1-n50-03"] is entry
    assert "j25-m1-n50-03" in LIBRARY
    assert "j25-m1-n50-99" not in LIBRARY
    assert LIBRARY.matching("j25-m1-n50-03", "reduction")[0] is entry
    assert len(LIBRARY.matching("j25-m1-n50-03", "reduction")) == 11
    assert LIBRARY.matching() == [*LIBRARY]


def test_what_was_rounded_is_told() -> None:
    note = instances.rounding_note(instances.library()["azure-conv-n80-00"].instance.metadata)
    assert note is not None
    assert "multiples of 64" in note


def test_attribution_stands_with_the_windows_of_traces_and_with_nothing_else() -> None:
    for entry in LIBRARY:
        is_window = "azure" in entry.name
        assert (entry.licence == "CC-BY-4.0") is is_window, entry.name
        assert ("AzurePublicDataset" in entry.source) is is_window, entry.name


@pytest.mark.slow
def test_the_wheel_holds_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    here = {
        path.relative_to(ROOT).as_posix() for path in FOLDER.rglob("*") if path.suffix != ".pyc"
    }
    # Certificates stay in the repository.
    files = {p for p in here if (ROOT / p).is_file() and not p.endswith(".json.xz")}
    assert f"instances/catalogue/sets/{LIBRARY.sets[0].name}.json" in files
    assert files <= held
