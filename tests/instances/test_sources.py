"""Digests of the user's code change with what a policy or generator runs, and with nothing else."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import online
from instances import InvalidValueError, sources
from instances.generators import registry
from instances.sources import PACKAGES, UNSTORED, package_sources, remember, user_sources
from online.policy_interface import policy as policy_module
from online.policy_interface.predictions import NoisyPredictions


def policy_sources(name: str) -> str | None:
    return user_sources(policy_module.policy_class(name), f"policy {name!r}")


FILES = {
    "mine/__init__.py": "",
    "mine/policy.py": (
        "import numpy\n"
        "import flat_helper\n"
        "from . import base\n"
        "from .order import by_length\n"
        "class Mine(base.Base):\n"
        "    def order(self):\n"
        "        import late_helper\n"
        "        return by_length, late_helper.value\n"
    ),
    "mine/base.py": "class Base: pass\n",
    "mine/order.py": "from .deep.below import sign\ndef by_length(x): return sign * x\n",
    "mine/deep/__init__.py": "",
    "mine/deep/below.py": "sign = 1\n",
    "mine/unrelated.py": "x = 1\n",
    "flat_helper.py": "y = 1\n",
    "late_helper.py": "value = 1\n",
    "stranger.py": "import mine.policy\n",
}
"""A user's code: nothing of it imports ``mine.unrelated`` or ``stranger``."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "place"
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield place
    forget()


def forget() -> None:
    """As in a new process."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("mine", "flat_helper", "late_helper", "stranger"):
            del sys.modules[name]
    importlib.invalidate_caches()


def digest_in_a_new_process() -> str | None:
    forget()
    return user_sources(importlib.import_module("mine.policy").Mine, "policy 'mine'")


RUN = sorted(set(FILES) - {"mine/unrelated.py", "stranger.py"})


@pytest.mark.parametrize("name", RUN)
def test_every_file_that_runs_counts(folder: Path, name: str) -> None:
    before = digest_in_a_new_process()
    assert before == digest_in_a_new_process() is not None
    (folder / name).write_text(FILES[name] + "z = 2\n")
    after = digest_in_a_new_process()
    (folder / name).write_text(FILES[name])
    assert before == digest_in_a_new_process() != after


@pytest.mark.parametrize("name", ["mine/unrelated.py", "stranger.py"])
def test_no_other_file_counts(folder: Path, name: str) -> None:
    before = digest_in_a_new_process()
    (folder / name).write_text("z = 2\n")
    assert digest_in_a_new_process() == before


def test_two_files_that_change_places_are_a_change(folder: Path) -> None:
    before = digest_in_a_new_process()
    (folder / "flat_helper.py").write_text(FILES["late_helper.py"])
    (folder / "late_helper.py").write_text(FILES["flat_helper.py"])
    assert digest_in_a_new_process() != before


def test_the_place_does_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_in_a_new_process()
    moved = folder.rename(folder.with_name("elsewhere"))
    monkeypatch.syspath_prepend(moved)
    assert digest_in_a_new_process() == before


def test_what_counts_is_what_was_imported_not_what_was_saved_since(folder: Path) -> None:
    """A session goes on with the code it has loaded, whatever an editor does to the files."""
    forget()
    policy = importlib.import_module("mine.policy")
    remember(policy.__name__)
    (folder / "mine/policy.py").write_text(FILES["mine/policy.py"] + "z = 2\n")
    (folder / "mine/base.py").write_text("class Base: z = 2\n")
    before = user_sources(policy.Mine, "")
    (folder / "mine/policy.py").write_text(FILES["mine/policy.py"])
    (folder / "mine/base.py").write_text(FILES["mine/base.py"])
    assert before == digest_in_a_new_process()
    policy = sys.modules["mine.policy"]
    (folder / "mine/policy.py").write_text(FILES["mine/policy.py"] + "z = 2\n")
    assert user_sources(policy.Mine, "") == before
    policy = importlib.reload(policy)
    assert user_sources(policy.Mine, "") != before


@patch.dict(policy_module._POLICIES)
@patch.dict(registry._GENERATORS)
def test_registering_reads_the_files(folder: Path) -> None:
    for decorator, thing, digest in (
        ("online.register_policy", "class Thing: pass", policy_sources),
        ("registry.register_generator", "def thing(rng): pass", registry.generator_sources),
    ):
        forget()
        head = "import online\nfrom instances.generators import registry\n"
        text = f"{head}@{decorator}('thing')\n{thing}\n"
        (folder / "stranger.py").write_text(text)
        defined = vars(importlib.import_module("stranger"))
        (folder / "stranger.py").write_text("edited since = 1\n")
        loaded = digest("thing")
        (folder / "stranger.py").write_text(text)
        forget()
        importlib.invalidate_caches()
        sys.modules["stranger"] = types.ModuleType("stranger")
        vars(sys.modules["stranger"]).update(defined, __spec__=None)
        assert digest("thing") == loaded is not None


def test_what_is_installed_counts_only_for_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = folder.rename(folder.with_name("site-packages"))
    monkeypatch.syspath_prepend(installed)
    before = digest_in_a_new_process()
    (installed / "flat_helper.py").write_text("y = 2\n")
    assert digest_in_a_new_process() == before is not None
    (installed / "mine/deep/below.py").write_text("sign = -1\n")
    assert digest_in_a_new_process() != before


def test_this_distribution_and_the_library_are_no_code_of_the_user() -> None:
    assert {policy_sources(name) for name in online.policy_names()} == {None}
    assert user_sources(functools.partial, "") is None
    assert user_sources(dict, "") is None


def test_what_stands_in_no_file_has_a_digest_of_its_own_each_time(folder: Path) -> None:
    namespace: dict[str, Any] = {}
    exec("class Mine: pass", namespace)
    assert namespace["Mine"].__module__ == "builtins"
    cell = types.ModuleType("mine")
    sys.modules["mine"] = cell
    exec("class Mine: pass\ndef made():\n    class Mine: pass\n    return Mine", vars(cell))
    forget()
    order = importlib.import_module("mine.order")
    unpickled = functools.partial(order.by_length, (k for k in ()))
    for thing in (namespace["Mine"], cell.Mine, cell.made(), cell.Mine(), unpickled):
        first, second = (user_sources(thing, "policy 'mine'") for _ in range(2))
        assert first is not None
        assert second is not None
        assert first != second
        assert first.startswith(UNSTORED)
        assert second.startswith(UNSTORED)


def test_a_script_has_one_digest_in_the_processes_that_it_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "script.py"
    path.write_text("class Mine: pass\n")
    digests = []
    for name in ("__main__", "__mp_main__"):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        digests.append([user_sources(thing, "") for thing in (module.Mine, module.Mine())])
    assert digests[0] == digests[1]
    assert not any(str(digest).startswith(UNSTORED) for digest in digests[0])


def test_a_callable_that_is_no_definition_counts_with_its_values(folder: Path) -> None:
    def digest(function: Any, value: int) -> str | None:
        return user_sources(functools.partial(function, value), "")

    forget()
    order = importlib.import_module("mine.order")
    before = digest(order.by_length, 1)
    assert before == digest(order.by_length, 1) != digest(order.by_length, 2)
    # Of this distribution, with a value of the user's.
    assert digest(NoisyPredictions, 1) == digest(NoisyPredictions, 1) != digest(NoisyPredictions, 2)
    (folder / "mine/deep/below.py").write_text("sign = -1\n")
    forget()
    assert digest(importlib.import_module("mine.order").by_length, 1) != before


def test_every_file_of_the_packages_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    places = ["instances/a.py", "hindsight/b.py", "online/deep/c.py"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text("x = 1\n")

    def digests() -> tuple[str, str]:
        sources._package_digest.cache_clear()
        return package_sources(*PACKAGES), package_sources("instances", "hindsight")

    try:
        before = digests()
        for place in places:
            (tmp_path / place).write_text("x = 2\n")
            whole, part = digests()
            assert whole != before[0]
            assert (part == before[1]) == place.startswith("online")
            (tmp_path / place).write_text("x = 1\n")
        assert digests() == before
        (tmp_path / places[0]).rename(tmp_path / "instances/d.py")
        assert digests()[0] != before[0]
    finally:
        sources._package_digest.cache_clear()


def test_what_was_edited_before_it_was_first_asked_for_has_no_digest(folder: Path) -> None:
    order = folder / "mine" / "order.py"
    order.write_text("def by_length(x): return x in {'one', 'two', 'three'}\ndef unused(): pass\n")
    from mine import policy

    text = order.read_text()
    order.write_text(text.replace("three", "four").replace("def unused(): pass", ""))
    with pytest.raises(InvalidValueError, match=r"order.py' was edited after it was imported"):
        user_sources(policy.Mine, "policy 'mine'")
    order.write_text(f"# moved down\n{text}")
    importlib.reload(sys.modules["mine.order"])
    here = user_sources(policy.Mine, "policy 'mine'")
    order.write_text(text.replace("three", "four").replace("def unused(): pass", ""))
    assert user_sources(policy.Mine, "policy 'mine'") == here
    importlib.reload(sys.modules["mine.order"])
    assert user_sources(policy.Mine, "policy 'mine'") != here
