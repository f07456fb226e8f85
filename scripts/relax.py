"""The linear relaxation of an instance: bounds at any size."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("relax")
