"""Strategies that close the interval around an optimum; `hindsight.solve` chooses among them."""
