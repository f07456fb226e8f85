"""[C25] Figures 5 to 7: what is claimed of the mean latencies, and the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from instances.arrays import FloatArray
from online.pictures import Curve, latency_curves, new_axes
from online.pictures.style import TEXT_POINTS, dress
from studies.reproduction.declaration import Cause, Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .latency_by_prediction import (
    A_MAX,
    A_MIN,
    A_MIN_RESERVE,
    AROUND,
    CLASSES,
    H_SF,
    LARGER,
    OWN_MEMORY,
    POLICIES,
    ROUGH,
    SPREADS,
    Latencies,
    latencies,
)
from .lengths import CONVERSATIONS

CLOSE = 1.10
"""Ratio to H-SF up to which latencies count as nearly the same, at every number of requests."""
DETERIORATED = 1.25
"""Ratio to H-SF, at the largest number of requests, from which on a latency is clearly worse."""
HALVED = (0.4, 0.6)
"""What counts as about a half."""

COLUMNS = (
    "prediction",
    "policy",
    "law",
    "memory_limit",
    "requests",
    "seed",
    "mean_latency_seconds",
    "evictions",
)


def is_close(found: Latencies, policy: str) -> bool:
    """Tell whether the policy is within 10 % of H-SF at every number of requests."""
    return bool((found.ratios(policy) <= CLOSE).all())


def statements_5(found: Latencies) -> list[Statement]:
    """A_min close to H-SF, nearer to it than to A_max, and A_max the slowest."""
    least, most = found.ratios(A_MIN), found.ratios(A_MAX)
    return [
        Statement(f"A_min within 10 % of H-SF {_everywhere(found)}", is_close(found, A_MIN)),
        Statement(
            "A_min nearer to H-SF than to A_max at each of them",
            bool((least - 1 < most - least).all()),
        ),
        Statement("A_max the slowest at each", bool((most > np.maximum(least, 1)).all())),
    ]


def statements_6(rough: Latencies, classes: Latencies) -> list[Statement]:
    """A_max about halved at the largest size; A_min close to H-SF; nearer to it than before."""
    left = share_left(rough, classes)
    nearer = classes.ratios(A_MIN) <= rough.ratios(A_MIN)
    return [
        Statement(
            f"A_max about halved ({HALVED[0]} to {HALVED[1]}; {left:.2f})",
            HALVED[0] <= left <= HALVED[1],
        ),
        Statement(f"A_min within 10 % of H-SF {_everywhere(classes)}", is_close(classes, A_MIN)),
        Statement(
            "A_min nearer to H-SF than with [1, 1000] at each of them "
            f"({int(nearer.sum())} of {len(classes.sizes)})",
            bool(nearer.all()),
        ),
    ]


def share_left(rough: Latencies, classes: Latencies) -> float:
    """A_max's latency with classes over that with one interval, at the largest size."""
    return float((classes.seconds[A_MAX][-1] / rough.seconds[A_MAX][-1]).mean())


def _with_more_memory(rough: Latencies, classes: Latencies) -> float:
    return float((classes.more_memory[A_MAX] / rough.more_memory[A_MAX]).mean())


def statements_7(found: Sequence[Latencies]) -> list[Statement]:
    """Both close at the smallest spread; A_max worse at the others; A_min close there."""
    narrow, *wide = found
    return [
        Statement(
            "both within 10 % of H-SF at x = 0.1",
            is_close(narrow, A_MIN) and is_close(narrow, A_MAX),
        ),
        Statement(
            f"A_max at least 25 % above at 0.95 and 0.99 with {narrow.sizes[-1]} requests",
            all(one.ratios(A_MAX)[-1] >= DETERIORATED for one in wide),
        ),
        Statement(
            f"A_min within 10 % there {_everywhere(narrow)}",
            all(is_close(one, A_MIN) for one in wide),
        ),
    ]


CAUSE_6 = Cause(
    ("memory size not stated",),
    "[C25] states no M. With four times that of [J25], about what two A100s have left beside the "
    "weights, {memory=65968} hold; with lengths of the published variances, "
    "{lengths=three-moments}, with batch times of tensor parallel 1, "
    "{batch-time=llama-2-70b-a100-tp1}.",
)
CAUSE_7 = Cause(
    ("the claim itself", "lengths"),
    "Upper ends in proportion to the outputs leave requests in the order of H-SF and reserve at "
    "most twice what is used, so that there is little for A_max to lose. With four times the "
    "memory of [J25], as [C25] states none, {memory=65968} hold; with lengths of the published "
    "variances, {lengths=three-moments}, with batch times of tensor parallel 1, "
    "{batch-time=llama-2-70b-a100-tp1}.",
)


@register_reproduction(
    "c25-figure-5",
    "C25",
    "Figure 5",
    "every prediction [1, 1000]: the mean latency of A_min is nearly that of H-SF, that of A_max "
    "far higher",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths", "batch-time", "memory"),
)
def figure_5(setting: Setting) -> Outcome:
    """Measure Figure 5: one rough interval for all requests."""
    (rough,) = latencies(setting, [ROUGH])
    measured = f"{_latencies(rough)}; {_ratios(rough, A_MIN)}; {_ratios(rough, A_MAX)}"
    remark = f"{_checks([rough], [''])}; {_setup(rough, setting)}"
    rows = _rows([rough], ["[1, 1000]"])
    return Outcome(COLUMNS, rows, _draw([rough], [""]), measured, statements_5(rough), remark)


@register_reproduction(
    "c25-figure-6",
    "C25",
    "Figure 6",
    "ten classes of outputs: A_max takes about half of what it took with [1, 1000], A_min comes "
    "close to H-SF",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths", "batch-time", "memory"),
    cause=CAUSE_6,
)
def figure_6(setting: Setting) -> Outcome:
    """Ten classes of a hundred tokens."""
    rough, classes = latencies(setting, [ROUGH, CLASSES])
    measured = (
        f"{_latencies(classes)}; A_max takes {share_left(rough, classes):.2f} of what it took with "
        f"[1, 1000]; {_ratios(classes, A_MIN)}, with [1, 1000] {_span(rough, A_MIN)}; "
        f"{_ratios(classes, A_MAX)}"
    )
    remark = (
        f"with {LARGER} times the memory A_max takes {_with_more_memory(rough, classes):.2f} of "
        f"what it took; {_checks([classes], [''])}; {_setup(classes, setting)}"
    )
    rows = _rows([rough, classes], ["[1, 1000]", "classes"])
    figure = _draw([classes], [""])
    return Outcome(COLUMNS, rows, figure, measured, statements_6(rough, classes), remark)


@register_reproduction(
    "c25-figure-7",
    "C25",
    "Figure 7",
    "predictions (1 - x) o to (1 + x) o: at x = 0.1 A_max and A_min do well, at 0.95 and 0.99 "
    "A_max is much slower and A_min stays near H-SF",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths", "batch-time", "memory"),
    cause=CAUSE_7,
)
def figure_7(setting: Setting) -> Outcome:
    """An interval of its own for each request."""
    found = latencies(setting, AROUND)
    labels = [f"x = {x:g}" for x in SPREADS]
    measured = "; ".join(
        f"{label}: {_ratios(one, A_MIN)}, {_ratios(one, A_MAX)}"
        for label, one in zip(labels, found, strict=True)
    )
    remark = f"{_checks(found, labels)}; {_setup(found[0], setting)}"
    rows = _rows(found, labels)
    return Outcome(COLUMNS, rows, _draw(found, labels), measured, statements_7(found), remark)


def _everywhere(found: Latencies) -> str:
    return f"at every number of requests from {found.sizes[0]} to {found.sizes[-1]}"


def _setup(found: Latencies, setting: Setting) -> str:
    given = setting.conditions
    lengths = given.conversations_told("synthetic lengths")
    times = given.batch_time or "affine batch times in place of the paper's predictor"
    memory = "" if given.memory else " from [J25]"
    return (
        f"{lengths}, {len(found.other_law[H_SF])} samples of 2,000, all requests at once, {times}, "
        f"M = {given.memory_limit(OWN_MEMORY):,}{memory}"
    )


def _latencies(found: Latencies) -> str:
    listed = ", ".join(
        f"{policy} {found.seconds[policy][-1].mean():.1f} s" for policy in (H_SF, A_MIN, A_MAX)
    )
    return f"at {found.sizes[-1]} requests {listed}"


def _span(found: Latencies, policy: str) -> str:
    ratios = found.ratios(policy)
    return f"{ratios.min():.2f} to {ratios.max():.2f}"


def _ratios(found: Latencies, policy: str) -> str:
    return f"{policy} is {_span(found, policy)} times H-SF"


def _checks(found: Sequence[Latencies], labels: Sequence[str]) -> str:
    """Describe the effect of another law and of more memory, at the largest size."""
    law = _ratios_of([one.other_law for one in found], labels)
    memory = _ratios_of([one.more_memory for one in found], labels)
    return (
        f"with {found[0].sizes[-1]} requests, A_min and A_max are {law} times H-SF on lengths that "
        f"also have the published variances, and {memory} with {LARGER} times the memory, which "
        "the paper does not state"
    )


def _ratios_of(found: Sequence[Mapping[str, FloatArray]], labels: Sequence[str]) -> str:
    return ", ".join(
        " and ".join(f"{(each[policy] / each[H_SF]).mean():.2f}" for policy in (A_MIN, A_MAX))
        + (f" at {label}" if len(found) > 1 else "")
        for each, label in zip(found, labels, strict=True)
    )


def _rows(found: Sequence[Latencies], labels: Sequence[str]) -> list[list[Any]]:
    return [[label, *row] for one, label in zip(found, labels, strict=True) for row in one.rows]


def _draw(found: Sequence[Latencies], labels: Sequence[str]) -> Any:
    """Latencies above, or at the left where there is one kind of prediction; ratios beside."""
    if len(found) == 1:
        axes = new_axes(6.8, 3.0, columns=2)
        pairs = [(axes[0], axes[1])]
    else:
        axes = new_axes(6.8, 4.4, rows=2, columns=len(found), sharex=True, sharey="row")
        pairs = list(zip(axes[0], axes[1], strict=True))
    order = (H_SF, A_MIN, A_MAX, A_MIN_RESERVE)
    assert set(order) == set(POLICIES)
    for index, ((upper, lower), one, label) in enumerate(zip(pairs, found, labels, strict=True)):
        for ax, ratio in ((upper, False), (lower, True)):
            scale = one.seconds[H_SF] if ratio else 1.0
            curves = {
                policy: Curve.from_samples(
                    dict(zip(one.sizes, (one.seconds[policy] / scale).tolist(), strict=True))
                )
                for policy in order
            }
            latency_curves(curves, ax=ax)
            ax.get_legend().remove()
            first = index == 0
            y = ("ratio to H-SF" if ratio else "mean latency (seconds)") if first else ""
            title = label if not ratio else ""
            dress(ax, title, "requests" if ratio or len(found) == 1 else "", y)
    for upper, lower in pairs:
        # Each curve's bottom of 0 has fixed the shared limits of the panels drawn before.
        for ax, bottom in ((upper, 0.0), (lower, 0.9)):
            ax.autoscale(axis="y")
            ax.set_ylim(bottom=bottom)
    handles, names = pairs[0][0].get_legend_handles_labels()
    pairs[0][0].figure.legend(
        handles,
        names,
        loc="outside upper center",
        ncols=len(names),
        frameon=False,
        fontsize=TEXT_POINTS,
        handlelength=2.6,
    )
    return pairs[0][0].figure
