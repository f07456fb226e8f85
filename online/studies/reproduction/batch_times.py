"""Which batch time bears out what a paper measured: the same measurement with several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from instances.batch_time import (
    LLAMA_2_70B_2XA100,
    LLAMA_2_70B_A100_TP1,
    LLAMA_2_70B_A100_TP2,
)
from online.runtime.table import Table

from .record import Recorded
from .verdicts import tally

BATCH_TIMES = (LLAMA_2_70B_A100_TP1.name, LLAMA_2_70B_A100_TP2.name)
"""Presets from published profiles, beside whatever a measurement takes by itself."""

OWN = "as it is"
"""Heading of the measurement with its own batch time."""

VARIED = "batch-time="


def by_batch_time(recorded: Sequence[Recorded], experiments: Sequence[Recorded]) -> str:
    """A section of the page; empty where nothing was run with another batch time.

    Parameters
    ----------
    recorded, experiments : Sequence[Recorded]
        Measurements in the order of the page, and experiments. Those of another size or with other
        lengths than the measurement are left out: they would differ by more than the batch time.
    """
    found = []
    headings: dict[str, None] = dict.fromkeys(BATCH_TIMES)
    for each in recorded:
        others = dict(_others(each, experiments))
        if others:
            found.append((each, {OWN: each, **others}))
            headings.update(dict.fromkeys(others))
    if not found:
        return ""
    rows = []
    for each, runs in found:
        cells = [_told(runs[name]) if name in runs else "" for name in (OWN, *headings)]
        best = _best(runs)
        rest = [one.text for one in runs[best[0]].statements if not one.holds]
        remains = "; ".join(rest) or "nothing"
        rows.append((f"[{each.name}](#{each.name})", *cells, ", ".join(best), remains))
    columns = ("item", OWN, *headings, "most is borne out", "what remains")
    table = Table("", columns, tuple(rows), frozenset(columns)).to_markdown()
    options = " ".join(f"--vary {VARIED}{name}" for name in BATCH_TIMES)
    return f"""## By batch time

Measurements in seconds take the batch time of their module: for Llama-2-70B an affine fit,
`{LLAMA_2_70B_2XA100.name}`. The same with presets from published profiles, tensor parallel 1 and
2, by `{options}`: how many statements hold, with which batch time the most do, and which of them
fail with it all the same.

{table}"""


def _others(each: Recorded, experiments: Sequence[Recorded]) -> Iterator[tuple[str, Recorded]]:
    same = (each.name, each.size, each.lengths)
    for one in experiments:
        if one.varied.startswith(VARIED) and (one.name, one.size, one.lengths) == same:
            yield one.varied.removeprefix(VARIED), one


def _told(one: Recorded) -> str:
    held, counted = tally(one.statements)
    return f"{one.verdict} ({held} of {counted})"


def _best(runs: Mapping[str, Recorded]) -> list[str]:
    """With which batch times the most statements hold."""
    held = {name: tally(one.statements)[0] for name, one in runs.items()}
    return [name for name, count in held.items() if count == max(held.values())]
