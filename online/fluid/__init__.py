"""The fluid model of [A25]: equilibrium, stability, thresholds of WAIT and Nested WAIT, memory."""
