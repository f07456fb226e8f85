"""The hindsight optimum of an instance, or a certified interval around it."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("solve")
