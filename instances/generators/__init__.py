"""Generators: named families of random instances, each drawn from a seed."""

from __future__ import annotations

# Importing these modules registers their generators.
from . import arrival_models, prediction_families, synthetic_traces, variable_length_families  # noqa: F401
from .length_laws import moments
from .registry import register_generator
from .typed_arrivals import poisson_arrivals

__all__ = ["moments", "poisson_arrivals", "register_generator"]
