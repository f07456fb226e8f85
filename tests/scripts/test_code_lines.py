from __future__ import annotations

import subprocess
from pathlib import Path

from code_lines import counts

SOURCE = '''"""Of the module,
two lines."""

# A comment.
TEXT = """no docstring,
two lines"""


async def wait(n: int) -> None:
    "One line."
    print(
        n,  # kept
    )
'''


def test_docstrings_comments_and_blank_lines_are_no_code(tmp_path: Path) -> None:
    for name in ("online/a.py", "instances/b/c.py", "setup.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("# Four words in all\n")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    found = {key: count for key, count in counts(tmp_path).items() if count}
    assert found == {"instances": 6, "online": 6, "packages": 12, "words": 5}
