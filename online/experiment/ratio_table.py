"""The table of competitive ratios: a row for each family, prediction model, policy and optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from instances import rounding_note
from online.comparison.bootstrap import ConfidenceInterval
from online.comparison.ratio_tables import (
    COMPARED_WITH,
    RATIO_OF_WAITINGS,
    Cells,
    Reasons,
    attributes,
    both_ends,
    caption,
    confidence_of,
    count_reasons,
    have_both,
    have_level,
    labelled_reasons,
    level_notes,
    missing_notes,
    summary_table,
)
from online.comparison.summaries import PolicySummary, grouped, summary_of
from online.comparison.trial import NOT_RUN, Trial, separate
from online.runtime.table import Table, csv_text


@dataclass(frozen=True)
class RatioRow:
    """A policy over the trials of one family that are compared with one optimum.

    Attributes
    ----------
    experiment, version, family, predictions, policy : str
        What the trials have in common.
    missing : int
        Trials not yet run; they are not in ``summary``.
    summary : PolicySummary
        The statistics, see `online.comparison.summaries.PolicySummary`.
    mean_confidence, totals_confidence : ConfidenceInterval
        Bootstrap intervals of ``mean_ratio`` and ``ratio_of_totals``; there is none of
        ``max_ratio``, which no resampling can exceed.
    rounding : str
        What the optima are optima of, see `instances.rounding_note`; empty where nothing was
        rounded.
    reasons : Reasons
        Why trials have no ratio, see `online.comparison.ratio_tables.count_reasons`.
    pending : int
        Trials whose optimum has not been looked for, or not yet. They are in ``summary`` only where
        it has no others, see ``is_solved``.
    """

    experiment: str
    version: str
    family: str
    predictions: str
    policy: str
    missing: int
    summary: PolicySummary
    mean_confidence: ConfidenceInterval
    totals_confidence: ConfidenceInterval
    rounding: str = ""
    reasons: Reasons = ()
    pending: int = 0

    @property
    def is_solved(self) -> bool:
        """Tell whether ``summary`` has only trials whose optimum has been searched for."""
        return self.summary.mean_ratio.lower is not None


def ratio_rows(results: Sequence[Trial], *, confidence_level: float = 0.95) -> list[RatioRow]:
    """Rows in order of appearance.

    The unit that is resampled is the instance: runs of a randomized policy on one instance with
    several seeds stay together.
    """
    groups: dict[tuple[str, str, str, str], list[Trial]] = {}
    for one in results:
        key = (one.experiment, one.version, one.family, one.predictions)
        groups.setdefault(key, []).append(one)
    rows = []
    for key, members in groups.items():
        for whole, every in grouped(members):
            found = [one for one in every if one.status != NOT_RUN]
            solved = [one for one in found if not one.is_pending]
            own = solved if any(one.ratio is not None for one in solved) else found
            summary = summary_of(whole.policy, whole.compared_with, own)
            mean, totals = confidence_of(own, confidence_level=confidence_level)
            rows.append(
                RatioRow(
                    *key,
                    whole.policy,
                    missing=len(every) - len(found),
                    summary=replace(summary, instances=whole.instances, missing=whole.missing),
                    mean_confidence=mean,
                    totals_confidence=totals,
                    rounding=_rounding(members),
                    reasons=count_reasons(own),
                    pending=len(found) - len(solved),
                )
            )
    return rows


def ratio_table(rows: Sequence[RatioRow]) -> Table:
    """For print: ratios with four decimals, intervals rounded outwards."""
    return summary_table(
        [row.summary for row in rows],
        [(row.mean_confidence, row.totals_confidence) for row in rows],
        title=_caption(rows),
        places={name: [str(getattr(row, name)) for row in rows] for name in separate(rows)},
    )


def ratio_reasons(rows: Sequence[RatioRow]) -> Table:
    """Make a table of why trials have no ratio, for print."""
    shown = (*separate(rows), "policy")
    counted = [(tuple(str(getattr(row, name)) for name in shown), row.reasons) for row in rows]
    return labelled_reasons(shown, counted)


def ratio_notes(results: Sequence[Trial]) -> list[str]:
    """Say what on time means, and which instances rows lack."""
    return level_notes(results) + missing_notes(results)


_CELLS: Cells = {
    **attributes("experiment", "version", "family", "predictions", "policy"),
    "trials": attrgetter("summary.trials"),
    "failed": attrgetter("summary.failed"),
    "missing": attrgetter("missing"),
    "proved": attrgetter("summary.proved"),
    **both_ends("mean_ratio", of="summary.mean_ratio"),
    "mean_ratio_ci_low": attrgetter("mean_confidence.low"),
    "mean_ratio_ci_high": attrgetter("mean_confidence.high"),
    **both_ends("max_ratio", of="summary.max_ratio"),
    **both_ends("ratio_of_totals", of="summary.ratio_of_totals"),
    "ratio_of_totals_ci_low": attrgetter("totals_confidence.low"),
    "ratio_of_totals_ci_high": attrgetter("totals_confidence.high"),
    "confidence_level": attrgetter("mean_confidence.level"),
    "reasons": lambda row: "; ".join(f"{n} {status}: {why}" for n, status, why in row.reasons),
    COMPARED_WITH: attrgetter("summary.compared_with"),
    **both_ends(RATIO_OF_WAITINGS, of="summary.ratio_of_waitings"),
    "unit": attrgetter("summary.unit"),
    "mean_latency": lambda row: row.summary.mean_latency and float(row.summary.mean_latency),
    "pending": attrgetter("pending"),
    "missing_instances": lambda row: "; ".join(row.summary.missing),
}


_ON_TIME: Cells = {
    "share_on_time": lambda row: (
        None if (share := row.summary.share_on_time) is None else float(share)
    ),
    **both_ends("of_attainable", of="summary.of_attainable"),
}


_BOTH: Cells = {
    **both_ends("to_optimum", of="summary.to_optimum"),
    **both_ends("to_preemptive_optimum", of="summary.to_preemptive_optimum"),
}


def ratio_csv(rows: Sequence[RatioRow]) -> str:
    """For programs: every end of every interval in full; empty where it is not known."""
    summaries = [row.summary for row in rows]
    both = _BOTH if have_both(summaries) else {}
    cells = {**_CELLS, **both, **(_ON_TIME if have_level(summaries) else {})}
    return csv_text([cells, *([cell(row) for cell in cells.values()] for row in rows)])


def _rounding(members: Sequence[Trial]) -> str:
    """Return the note of a family, whose instances are all drawn alike."""
    problem = next((one.problem for one in members if one.problem is not None), None)
    return "" if problem is None else rounding_note(problem.metadata) or ""


def _caption(rows: Sequence[RatioRow]) -> str:
    solved = [row for row in rows if row.is_solved]
    unsolved = [row for row in rows if not row.is_solved]
    pending = "trials whose optimum has not been computed"
    counted = {
        "trials without a proved optimum: [at least, at most]": sum(
            row.summary.completed - row.summary.proved for row in solved
        ),
        f"{pending} enter no ratio": sum(row.pending for row in solved),
        f"{pending}: ? is not known": sum(row.pending for row in unsolved),
        "trials that failed or never ended enter no ratio": sum(row.summary.failed for row in rows),
        "trials not yet run": sum(row.missing for row in rows),
    }
    names = {row.experiment for row in rows}
    parts = [*(names if len(names) == 1 else ()), caption([row.summary for row in rows])]
    parts += [f"{count} {what}" for what, count in counted.items() if count]
    parts += filter(None, dict.fromkeys(row.rounding for row in rows))
    return "; ".join(parts)
