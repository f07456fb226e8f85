"""Interface of policies: observations, decisions, and base classes to build on."""

from __future__ import annotations

from .lookahead import PriorityPolicy
from .policy import (
    Decision,
    KnowledgeError,
    Policy,
    PolicyError,
    RunningRequest,
    Setup,
    State,
    VisibleRequest,
    policy_names,
    policy_parameters,
    register_policy,
)
from .predictions import (
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
    Prediction,
    PredictionModel,
    ProportionalPredictions,
    RelativePredictions,
)
from .specs import make_policy

__all__ = [
    "BucketPredictions",
    "Decision",
    "ExactPredictions",
    "IntervalPredictions",
    "KnowledgeError",
    "NoisyPredictions",
    "Policy",
    "PolicyError",
    "Prediction",
    "PredictionModel",
    "PriorityPolicy",
    "ProportionalPredictions",
    "RelativePredictions",
    "RunningRequest",
    "Setup",
    "State",
    "VisibleRequest",
    "make_policy",
    "policy_names",
    "policy_parameters",
    "register_policy",
]
