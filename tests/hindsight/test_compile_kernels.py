"""Kernels compiled ahead: afterwards a solve compiles nothing more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from numba.core import event

from hindsight.compile_kernels import compile_kernels
from instances import generate

compile_kernels()
compiled = []


class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


import hindsight

with event.install_listener("numba:compile", Listener()):
    for model, n in ((1, 5), (2, 5), (1, 30)):
        hindsight.solve(generate(f"arrival-model-{model}", seed=1, n=n), time_limit=2, threads=1)
print(compiled)
"""


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    # An empty cache: code that is only loaded from it raises no event.
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert ran.stdout.strip() == "[]"
