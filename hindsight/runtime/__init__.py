"""What a long computation asks of the machine: memory, Ctrl-C, compiled loops."""
