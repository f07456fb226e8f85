"""A second process that compiles loops, while this one does something else."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from .clock import never
from .compilation import Heard, is_compiled, is_stored
from .cores import available_cores

PROGRAM = """
import sys
sys.path[:] = {path!r}
from hindsight.compile_kernels import compile_for_another
compile_for_another({parts!r})
"""


@contextmanager
def second_compiler(
    parts: Sequence[str], loop: Any, heard: Heard = lambda name, seconds: None
) -> Iterator[Callable[[], bool]]:
    """Compile loops in a second process while the ``with`` block runs.

    The block is given a function that tells whether the second process is at work.

    Both processes look on disk for the machine code of a loop before they compile it. The second
    process ends with the block, or with this process. There is none if it would not help: with one
    core, without parts, in a frozen program, where no machine code is stored, and if ``loop`` is
    compiled.

    Parameters
    ----------
    parts : sequence of str
        Keys of `hindsight.compile_kernels.PARTS`, in the order in which they are compiled.
    loop : compiled function
        A loop of these parts: if it is compiled, so are the others.
    heard : callable, optional
        Called in another thread for each loop that the second process compiled, with its full name
        and the seconds taken.
    """
    process = None
    # The executable of a frozen program is that program, and no interpreter.
    has_interpreter = bool(sys.executable) and not getattr(sys, "frozen", False)
    may_start = parts and has_interpreter and available_cores() > 1
    if may_start and is_stored(loop) and not is_compiled(loop):
        process = _started(PROGRAM.format(path=sys.path, parts=tuple(parts)))
    if process is None:
        yield never
        return
    assert process.stdout is not None
    listener = threading.Thread(target=_listen, args=(process.stdout, heard), daemon=True)
    listener.start()
    try:
        yield lambda: process.poll() is None
    finally:
        process.kill()
        process.wait()
        listener.join()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def _started(program: str) -> subprocess.Popen[str] | None:
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Ctrl-C is for the first process, which then ends the second one.
            start_new_session=True,
        )
    except (OSError, ValueError):  # No process may be started here.
        return None


def _listen(lines: IO[str], heard: Heard) -> None:
    for line in lines:
        seconds, name = line.split()
        heard(name, float(seconds))
