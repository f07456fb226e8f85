"""Pictures of schedules, runs and ratios: functions that draw on matplotlib axes ``ax``.

Without ``ax`` a function makes a new figure in a size for print, and returns its axes. No function
uses pyplot or changes matplotlib's settings. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from .curves import latency_curves
from .gantt import gantt
from .memory import policy_and_optimum, stacked_memory
from .page import page
from .style import new_axes, save

__all__ = [
    "gantt",
    "latency_curves",
    "new_axes",
    "page",
    "policy_and_optimum",
    "save",
    "stacked_memory",
]
