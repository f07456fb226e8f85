"""[A25]: tables and figures measured again."""

from . import nested_figures, wait_figures

__all__ = ["nested_figures", "wait_figures"]
