"""Services for long computations: clock, memory, Ctrl-C, compiled loops."""
