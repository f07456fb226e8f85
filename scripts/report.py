"""A results file as one HTML page: ratios, and schedules beside their optima."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("report")
