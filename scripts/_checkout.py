"""Make the packages of this checkout importable; every script imports this first."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if (ROOT / "instances" / "__init__.py").is_file():
    # They come before any that are installed.
    sys.path.insert(1, str(ROOT))

from llm_hindsight import end_at_once_on_ctrl_c, run_subcommand  # noqa: E402

__all__ = ["ROOT", "run_subcommand"]

# Not in what only borrows from here.
if Path(sys.argv[0]).resolve().parent == ROOT / "scripts":
    end_at_once_on_ctrl_c()
