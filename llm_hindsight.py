"""The command ``llm-hindsight``: the part that runs before any library is imported.

Importing the libraries takes half a second. During this time Ctrl-C ends the command at once. The
help of the command and its version are printed without importing them.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

PROGRAM = "llm-hindsight"
ERROR_STATUS = 2
INTERRUPTED_STATUS = 130
"""Exit status of a command that Ctrl-C ended, as shells expect it: 128 + SIGINT."""

GROUPS = {
    "A scheduling policy compared with the best possible": {
        "ratios": "policies against the hindsight optimum of the same requests",
        "check": "whether your policy or bound keeps the rules of its kind",
        "example": "ratios --demo",
    },
    "A server's log": {
        "headroom": "what could have been saved at most, and how much a policy saves",
        "example": "headroom log.csv --batch-time llama-2-70b-2xa100 --out a.html",
    },
    "An optimum or a bound": {
        "generate": "instances of families, traces, or found worst cases, as files",
        "solve": "the hindsight optimum of an instance, an interval or a bound",
        "verify": "check a certificate or the library of instances, without a solver",
        "show": "policies, routers, generators, presets, named instances",
        "example": "generate 'generator:mixed(n=8)' --out small.json\n"
        f"  $ {PROGRAM} solve small.json",
    },
}
"""Help texts of the subcommands in groups: by title, a line for each name, and an example call."""

SUBCOMMANDS = {
    name: about for group in GROUPS.values() for name, about in group.items() if name != "example"
}


def _end_at_once(number: int, frame: Any) -> None:
    # No result is lost while libraries are imported. A KeyboardInterrupt could be swallowed by the
    # code of an import, so end the process without one.
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED_STATUS)


def end_at_once_on_ctrl_c() -> None:
    """Let Ctrl-C end the process without a traceback, until another handler of SIGINT is set.

    Change nothing if the process was started with SIGINT ignored. Change nothing either in a worker
    process, in which SIGINT is blocked.
    """
    # Python on Windows has no function that returns the blocked signals.
    mask = getattr(signal, "pthread_sigmask", None)
    blocked = mask(signal.SIG_BLOCK, ()) if mask else ()
    is_ignored = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if not is_ignored and signal.SIGINT not in blocked:
        signal.signal(signal.SIGINT, _end_at_once)


def main() -> NoReturn:
    """Run the command ``llm-hindsight`` with the arguments of the process."""
    end_at_once_on_ctrl_c()
    if f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE" not in os.environ:
        first = sys.argv[1] if len(sys.argv) > 1 else "--help"
        if first in ("--help", "--version"):
            print(first_screen() if first == "--help" else version())
            raise SystemExit
    from online.commands.console import run_subcommands

    run_subcommands(PROGRAM, SUBCOMMANDS)


def run_subcommand(name: str) -> NoReturn:
    """Run the command as if the name of a subcommand had been its first argument."""
    sys.argv.insert(1, name)
    main()


def first_screen() -> str:
    """Return the help text of the command: its purpose, and its subcommands in groups."""
    width = max(map(len, SUBCOMMANDS))
    lines = [
        "How far is a scheduler for LLM serving from the best that could have been done,",
        "knowing the future?",
    ]
    for title, group in GROUPS.items():
        lines += ["", title]
        lines += [f"  {n.ljust(width)}  {group[n]}" for n in group if n != "example"]
        lines.append(f"  $ {PROGRAM} {group['example']}")
    return "\n".join(
        [
            *lines,
            "",
            f"{PROGRAM} SUBCOMMAND --help shows its options. Also: --version,",
            "--install-completion and --show-completion (of the shell).",
        ]
    )


def version() -> str:
    """Return the versions of the package, of Python and of HiGHS as text."""
    import platform
    from importlib import metadata

    try:
        own = metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        # The package is not installed: it runs from a checkout of the repository.
        from instances.version import __version__ as own
    try:
        highs = metadata.version("highspy")
    except metadata.PackageNotFoundError:
        highs = "missing"
    return f"{PROGRAM} {own}, Python {platform.python_version()}, HiGHS {highs}"


if __name__ == "__main__":
    main()
