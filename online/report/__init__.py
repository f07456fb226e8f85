"""A self-contained page."""
