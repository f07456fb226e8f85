"""Tables and figures for the claims of [A25]: gaps to the fluid value, instability, memory."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("fluid")
