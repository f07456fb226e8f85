"""Search for small instances that maximise policies' proved competitive ratios."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("worst-case")
