"""The fluid model of [A25]: its equilibrium, and thresholds and memory of WAIT and Nested WAIT."""
