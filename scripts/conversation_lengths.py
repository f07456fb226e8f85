"""Take the lengths of conversations out of the files of their data set."""

from __future__ import annotations

from _checkout import run_subcommand

if __name__ == "__main__":
    run_subcommand("conversation-lengths")
