"""A recorded page says what its commands print, and can be recorded again."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PAGE = """\
Recorded on nothing yet.

## One

```txt title="notes.txt"
before
```

```shell-session
$ cat notes.txt; \\
  printf '```python\\n$(inside)\\n```\\nafter\\n'
what was there before
$ false  # exits 1
$ kill -KILL $$  # exits 137
```

```python
untouched = "$ echo"
```
"""


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import record_walks

    yield record_walks
    del sys.modules["record_walks"]


def test_a_page_records_what_is_printed_and_again(walks: object, tmp_path: Path) -> None:
    once = record(walks, tmp_path / "once", PAGE)
    assert re.search(r"^Recorded on \d+ cores, .*: One \d+ s\.$", once, re.M)
    assert "what was there before" not in once
    assert "\n````shell-session\n$ cat notes.txt; \\\n" in once
    assert "\nbefore\n```python\n$(inside)\n```\nafter\n[" in once
    assert "\n$ false  # exits 1\n[" in once
    assert 'untouched = "$ echo"' in once
    again = record(walks, tmp_path / "again", once)
    assert without_seconds(again) == without_seconds(once)


@pytest.mark.parametrize("command", ["false", "true  # exits 1", "pwd"])
def test_another_end_or_a_path_of_this_machine_stops_it(
    walks: object, tmp_path: Path, command: str
) -> None:
    with pytest.raises(SystemExit):
        record(walks, tmp_path / "once", f"```shell-session\n$ {command}\n```\n")


def record(walks: object, folder: Path, page: str) -> str:
    folder.mkdir()
    found: str = walks.Walk(folder).record(page)  # type: ignore[attr-defined]
    return found


def without_seconds(page: str) -> str:
    return re.sub(r"\d+\.\d s\]", "", page)
