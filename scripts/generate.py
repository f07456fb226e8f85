"""Instances of the registered generators, or windows of a trace, as JSON files."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("generate")
