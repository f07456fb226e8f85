"""Every policy on every instance of the library, beside what is known of its optimum."""

from __future__ import annotations

from .scores import Score, read_scores, scores_csv
from .standings import Standing, beaten, equal_policies, standings
from .tables import leaderboard_tables, standings_csv, without_ratio
from .trials import play, registered

__all__ = [
    "Score",
    "Standing",
    "beaten",
    "equal_policies",
    "leaderboard_tables",
    "play",
    "read_scores",
    "registered",
    "scores_csv",
    "standings",
    "standings_csv",
    "without_ratio",
]
