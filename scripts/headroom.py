"""Run ``llm-hindsight headroom``: possible savings on a log, and each policy's share."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("headroom")
