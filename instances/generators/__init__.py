"""Generators: families of instances drawn from a seed, by name."""

from __future__ import annotations

# Importing them registers their generators.
from . import (  # noqa: F401
    arrival_models,
    prediction_families,
    synthetic_traces,
    variable_length_families,
)
from .length_laws import moments
from .registry import register_generator
from .typed_arrivals import poisson_arrivals

__all__ = ["moments", "poisson_arrivals", "register_generator"]
