"""Ratios on the papers' adversarial constructions beside what the theorems claim."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("adversaries")
