"""[A25]: tables and figures measured again."""

from . import lengths, segments, serving  # noqa: F401
