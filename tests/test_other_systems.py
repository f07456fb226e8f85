"""What Windows lacks or does differently, faked on the system at hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from instances import InvalidValueError
from online.commands.sources import parse_source
from online.policy_interface.specs import PolicySpec

WITHOUT_POSIX = """
import os, signal, sys, time

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
for module, name in ((os, "sched_getaffinity"), (os, "killpg"), (signal, "pthread_sigmask")):
    delattr(module, name)

import hindsight, instances, online
import online.commands.console

instance = instances.Instance.from_arrays([1, 2, 1], [2, 3, 1], memory_limit=6)
print(hindsight.solve(instance, progress=False).status, online.simulate(instance, "mc-sf").status)
"""


def test_solve_and_simulate_need_no_posix_module() -> None:
    command = [sys.executable, "-c", WITHOUT_POSIX]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert ran.stdout == "optimal completed\n", ran.stderr


@pytest.mark.parametrize("name", [r"C:\logs\day.csv", r"c:\logs\day.csv", "c:/logs/day.csv"])
def test_the_letter_of_a_drive_is_no_kind_of_source(name: str) -> None:
    source = parse_source(f"{name}(faster=2)")
    assert (source.kind, source.name, source.settings) == ("file", name, {"faster": "2"})


def test_the_colon_of_a_drive_ends_no_file_name() -> None:
    with pytest.raises(InvalidValueError, match=r"C:\\+rules\.py' cannot be read"):
        PolicySpec.read(r"C:\rules.py")
    with pytest.raises(InvalidValueError, match=r"C:\\+rules\.py' cannot be read"):
        PolicySpec.read(r"C:\rules.py:Mine(alpha=2)")
