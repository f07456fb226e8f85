"""The library without the records that come along."""

from __future__ import annotations

from library_records import no_package

__all__ = ["no_package"]
