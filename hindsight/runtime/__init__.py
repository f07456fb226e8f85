"""Services for long computations: clock, memory use, Ctrl-C and compiled loops."""
