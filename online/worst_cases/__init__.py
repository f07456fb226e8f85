"""The search for small instances on which a policy's competitive ratio is largest."""

from .drafts import Space
from .search import WorstCases, search

__all__ = ["Space", "WorstCases", "search"]
