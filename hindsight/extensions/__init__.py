"""User-defined bounds and cuts: registration, calls and validation of their results."""
