"""Policies against the hindsight optimum: ratios, trials, their tables."""

from __future__ import annotations

from online.policy_interface.specs import PolicySpec
from online.trials.intervals import Interval, MismatchError, Ratio, ratio

from .bootstrap import ConfidenceInterval, ratio_confidence
from .comparing import Comparison, ComparisonProgress, compare, compare_many
from .ratio_tables import Records, records_csv, records_table, report_markdown, summary_table
from .summaries import PolicySummary, summarise
from .trial import Trial

__all__ = [
    "Comparison",
    "ComparisonProgress",
    "ConfidenceInterval",
    "Interval",
    "MismatchError",
    "PolicySpec",
    "PolicySummary",
    "Ratio",
    "Records",
    "Trial",
    "compare",
    "compare_many",
    "ratio",
    "ratio_confidence",
    "records_csv",
    "records_table",
    "report_markdown",
    "summarise",
    "summary_table",
]
