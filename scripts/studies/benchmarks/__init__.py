"""The methods beside each other and beside CP-SAT, timed."""
