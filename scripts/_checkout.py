"""Make the packages of this checkout importable. Every script imports this module first."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if (ROOT / "instances" / "__init__.py").is_file():
    # The packages of the checkout are found before installed packages of the same names.
    sys.path.insert(1, str(ROOT))

from llm_hindsight import end_at_once_on_ctrl_c, run_subcommand  # noqa: E402

__all__ = ["ROOT", "run_subcommand"]

# Only if a script of this folder runs. Another program may import these modules too.
if Path(sys.argv[0]).resolve().parent == ROOT / "scripts":
    end_at_once_on_ctrl_c()
