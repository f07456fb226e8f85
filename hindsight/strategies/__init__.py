"""The ways to close the interval around an optimum; `hindsight.solve` chooses."""
