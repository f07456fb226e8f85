"""Modules and files of the user's: imported once, apart, and again where they were edited."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from instances import InvalidValueError, user_modules
from instances.user_modules import import_source, import_sources, imported_sources


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Here, and nothing imported from it before or after."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(user_modules, "_imported", {})
    monkeypatch.setattr(user_modules, "_files", {})
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def write(path: str, text: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_is_one_module_by_whichever_path(folder: Path) -> None:
    write("rules_of_mine.py", "x = []\n")
    one = import_source(str(folder / "rules_of_mine.py"))
    assert import_source("./rules_of_mine.py") is one
    assert import_source("../rules_of_mine.py", folder / "sub") is one


def test_files_of_one_stem_are_two_modules() -> None:
    write("a/rules.py", "x = 1\n")
    write("b/rules.py", "x = 2\n")
    assert [import_source(f"{name}/rules.py").x for name in "aba"] == [1, 2, 1]


def test_a_file_imports_from_its_folder_which_is_left_clean(folder: Path) -> None:
    write("a/rules.py", "from beside_rules import x\n")
    write("a/beside_rules.py", "x = 7\n")
    assert import_source("a/rules.py").x == 7
    assert sorted(path.name for path in (folder / "a").iterdir()) == ["beside_rules.py", "rules.py"]


def test_an_edited_file_is_read_again() -> None:
    write("rules.py", "x = 1\n")
    first = import_source("rules.py")
    write("rules.py", "x = 2\n")
    second = import_source("rules.py")
    assert (first.x, second.x) == (1, 2)
    write("rules.py", "x = 3\n1 / 0\n")
    with pytest.raises(InvalidValueError, match=r"ZeroDivisionError: .* \(rules.py:2\)"):
        import_source("rules.py")
    write("rules.py", "x = 2\n")
    assert import_source("rules.py").x == 2


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("no.py", None, "import = 'no.py' cannot be read: No such file"),
        ("no_such_rules", None, "fails: ModuleNotFoundError: No module named 'no_such_rules'"),
        ("what is this", None, "fails: ModuleNotFoundError: No module named 'what is this'"),
        ("r.py", "def f(:\n", "import = 'r.py' fails: SyntaxError: invalid syntax (r.py, line 1)"),
        ("r.py", "import os\n\nimport not_there\n", "No module named 'not_there' (r.py:3)"),
        ("r.py", "def f():\n    {}[1]\nf()\n", "import = 'r.py' fails: KeyError: 1 (r.py:2)"),
        ("r.py", "import sys\nsys.exit('no\\nmore')\n", "fails: SystemExit: no more (r.py:2)"),
        ("r.py", "from instances import generate\ngenerate('x')\n", "known: "),
        ("r.py", "x = '\0'\n", "import = 'r.py' "),
    ],
)
def test_errors_are_one_line_with_the_users_own(name: str, text: str | None, told: str) -> None:
    if text is not None:
        write(name, text)
    with pytest.raises(InvalidValueError) as caught:
        import_source(name)
    message = str(caught.value)
    assert told in message
    assert "\n" not in message
    assert str(Path(__file__).parents[2]) not in message


def test_what_was_imported_is_known_for_other_processes(folder: Path) -> None:
    write("rules.py", "")
    write("more_rules.py", "")
    import_sources(["rules.py", "more_rules", "rules.py"])
    assert imported_sources() == [str(folder / "rules.py"), "more_rules"]
