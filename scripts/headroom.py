"""What the best scheduler could have saved on a log, and which policy gets how much of it."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("headroom")
