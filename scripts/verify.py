"""Check a certificate of a lower bound or an optimum, with no solver in sight."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("verify")
