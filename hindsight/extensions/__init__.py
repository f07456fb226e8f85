"""User-defined bounds: registration, calls and validation of their results."""
