"""Tables, notes, files and reports of comparisons, from trials written by hand.

`make golden WHAT=comparisons` writes tests/golden/comparisons.txt again after an intended change.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from golden import check_text

from instances import ServiceLevel
from instances.batch_time import UnitTime
from online.comparison import Interval, Records, Trial, records_csv, report_markdown, summarise
from online.comparison.ratio_tables import summary_sentence
from online.report import build_report


def trial(
    policy: str, total: int | Fraction | None, lower: Any, upper: Any, **changes: Any
) -> Trial:
    """Three requests of five output tokens together."""
    known: dict[str, Any] = {"instance": "one", "digest": "d", "requests": 3, "memory_limit": 9}
    known |= {"params": {}, "seed": 0, "evictions": 0, "total_output_length": 5}
    known |= {"status": "livelock" if total is None else "completed", "solve_seconds": 0.25}
    bounds = {"optimum_upper": upper, "optimum_lower": lower, "optimum_certified": lower}
    stop = "proof" if lower == upper else "time-limit"
    return Trial(
        **{"policy": policy, "total_latency": total, "stop_reason": stop, **known, **bounds}
        | changes
    )


OTHER = {"instance": "two", "digest": "e"}
PREEMPTIVE = {"preemptive": True, "other": {"optimum_upper": 9, "optimum_lower": 9}}
SECONDS = {"batch_time": UnitTime(), "total_output_length": None, "lower_bound": "own time"}
LEVEL = {"level": ServiceLevel(latency=4)}

CASES: dict[str, list[Trial]] = {
    "none": [],
    "proved and not": [trial("p", 12, 8, 10), trial("longer", 30, 20, 20)],
    "a bound is not known": [trial("p", 12, 9, 10), trial("q", 30, None, 20)],
    "equal": [trial("a", 8, 8, 8), trial("b", 8, 8, 8)],
    "either may be the least": [trial("a", 12, 8, 8), trial("b", 8, 4, 8)],
    "two families": [
        *(trial("a", 12, 8, 8, family="x"), trial("b", 8, 8, 8, family="x")),
        trial("b", 12, 8, 8, family="y"),
    ],
    "two runs on one draw, and another": [
        trial("p", total, 8, 8, seed=seed, draw=draw)
        for seed, (total, draw) in enumerate([(12, 0), (8, 0), (10, 1)])
    ],
    "an optimum without waiting": [trial("p", 6, 5, 5), trial("q", 6, 4, 6)],
    "failed": [
        trial("b", None, 8, 9),
        trial("a", 12, 8, 8),
        *(
            trial(
                "c", None, 8, 8, status="failed", reason=f"ValueError: request {k} | late", seed=k
            )
            for k in (1, 2)
        ),
        trial("b", 8, 8, 8, reason="pauses"),
    ],
    "two instances, one without a run": [
        trial("worst", 30, 10, 10),
        trial("r", 11, 10, 10),
        trial("p", 13, 10, 10),
        trial("r", 12, 10, 10, **OTHER),
        trial("p", 20, 10, 10, **OTHER, **PREEMPTIVE),
    ],
    "both optima": [trial("p", 12, 8, 8), trial("q", 8, 6, 6, **PREEMPTIVE)],
    "parameters, weights and predictions": [
        trial("p", 12, 8, 8, params={"alpha": 0.5}, total_weight=9, predictions="noisy(delta=1)"),
        trial("p", 14, 8, 8, params={"alpha": 0.5}, total_weight=9),
    ],
    "routers": [trial("p", 12, 8, 8, router="random"), trial("p", 9, 8, 8, router="least-work")],
    "in seconds": [
        trial("p", Fraction(13, 2), Fraction(16, 3), 6, **SECONDS),
        trial("q", None, Fraction(16, 3), 6, reason="its time ran out", **SECONDS),
    ],
    "a service level": [
        trial("p", 12, 8, 8, on_time=2, attainable=Interval(2, 3), **LEVEL),
        trial("q", 13, 8, 8, on_time=1, attainable=None, **LEVEL),
    ],
}


def rows_of(page: str) -> list[str]:
    """Heading and rows of the tables of a report, without their markup."""
    heading = re.findall(r"<h1.*?</h1>", page, flags=re.DOTALL)
    rows = [
        " | ".join(re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL))
        for row in re.findall(r"<tr.*?</tr>", page, flags=re.DOTALL)
    ]
    return [re.sub(r"<[^>]*>", "", one) for one in heading + rows]


def test_golden_comparisons() -> None:
    parts = []
    for name, trials in CASES.items():
        page = report_markdown(trials, summarise(trials), ["4 of 5 | kept"])
        shown = [Records(trials).table().to_text(), Records(trials).summary().to_text()]
        report = rows_of(build_report(trials)) if trials else []
        parts += [f"=== {name}", summary_sentence(trials), page, records_csv(trials)]
        parts += [*shown, *report]
    check_text("comparisons.txt", "\n".join(parts) + "\n")
