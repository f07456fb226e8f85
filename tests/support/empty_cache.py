"""Programs on a machine that has never compiled a loop."""

import os
import subprocess
import sys
from pathlib import Path


def printed_without_cache(program: str, cache: Path) -> str:
    """Run a program whose compiled loops go to an empty folder; return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )
    return ran.stdout
