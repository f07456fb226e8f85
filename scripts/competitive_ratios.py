"""Competitive ratios: policies against the hindsight optimum of the same instances."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("ratios")
