"""[C25]: figures measured again."""

from . import latency, lengths, ratios  # noqa: F401
