"""Measure tables and figures of the papers again: data, figure and verdict of each."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("reproduce")
