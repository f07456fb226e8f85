"""Play recordings of an engine's own scheduler again with its policy, and compare every step.

The engines are vLLM and SGLang, the policies `vllm` and `sglang`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from online.commands.console import run, say
from studies.engine_recordings import play, read_recordings

DIFFERENT_STATUS = 1
"""A recording was played and is another."""

LONGEST_SHOWN = 300


def replay_recordings(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.json.gz", help="A list of recordings, plain or gzip."),
    ],
) -> int:
    """Play recordings again: exit status 0 identical, 1 some step differs, 2 no recordings.

    Prints a row a recording: name, seed, steps, and whether every step is identical (requests and
    their tokens, for vLLM in order, who is preempted, who emits a token, blocks in use) or the
    first that is not.
    """
    recordings = read_recordings(file)
    width = max(len(recording.name) for recording in recordings)
    identical = 0
    for recording in recordings:
        difference = play(recording).difference
        identical += difference is None
        outcome = difference or "identical"
        if len(outcome) > LONGEST_SHOWN:
            outcome = f"{outcome[:LONGEST_SHOWN]}..."
        steps = len(recording.steps)
        say(f"{recording.name.ljust(width)}  seed {recording.seed:>3}  {steps:>6} steps  {outcome}")
    say(f"{identical} of {len(recordings)} recordings identical")
    return 0 if identical == len(recordings) else DIFFERENT_STATUS


if __name__ == "__main__":
    run(replay_recordings)
