"""Serving engines led, emulated and recorded from inside, each engine in a module of its own."""
