"""Headroom of a log: latency that a better scheduler could have saved, and savings of policies."""

from __future__ import annotations

from .answer import Headroom
from .log_questions import question_of_log
from .measuring import measure_headroom
from .question import Question
from .tables import headroom_page

__all__ = ["Headroom", "Question", "headroom_page", "measure_headroom", "question_of_log"]
