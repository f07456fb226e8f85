"""[W25]: tables and figures measured again."""

from . import latency, lengths  # noqa: F401
