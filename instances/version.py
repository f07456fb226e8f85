"""The version of this distribution; the build reads it here."""

__version__ = "0.2.0"
