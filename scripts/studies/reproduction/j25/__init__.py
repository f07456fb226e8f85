"""[J25]: tables and figures measured again."""

from . import latency, others  # noqa: F401
