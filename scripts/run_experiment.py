"""Run an experiment, or what is missing of it, into a results file."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("experiment")
