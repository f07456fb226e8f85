"""Support for long computations: time limits, memory use, Ctrl-C, threads and compiled loops."""
