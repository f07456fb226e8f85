"""[A25]: tables and figures measured again."""

# Imported in the order of the figures, in which they are listed.
from . import wait_figures  # isort: skip
from . import length_figures, nested_figures, segment_figures

__all__ = ["length_figures", "nested_figures", "segment_figures", "wait_figures"]
