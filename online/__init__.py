"""Online scheduling without knowledge of the future: simulator, policies and ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.version import package_version as _package_version

from . import policies as _policies  # registers the policies
from .batch_time import AffineTime, PiecewiseLinearTime, UnitTime
from .batch_time.service_model import PREFILL_ROUND, TOKEN_PER_ROUND, ServiceModel
from .comparison.blame import Blame, blame
from .comparison.comparing import compare
from .comparison.ratios import MismatchError, Ratio, ratio, share_of_attainable
from .policy_interface.lookahead import PriorityPolicy
from .policy_interface.policy import (
    Decision,
    KnowledgeError,
    Policy,
    PolicyError,
    policy_names,
    policy_parameters,
    register_policy,
)
from .policy_interface.predictions import (
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
    Prediction,
    ProportionalPredictions,
    RelativePredictions,
)
from .policy_interface.specs import make_policy
from .simulation.run import IncompleteRunError, NoScheduleError, Run
from .simulation.simulator import simulate

del _policies

__all__ = [
    "PREFILL_ROUND",
    "TOKEN_PER_ROUND",
    "AffineTime",
    "Blame",
    "BucketPredictions",
    "Decision",
    "ExactPredictions",
    "IncompleteRunError",
    "IntervalPredictions",
    "KnowledgeError",
    "MismatchError",
    "NoScheduleError",
    "NoisyPredictions",
    "PiecewiseLinearTime",
    "Policy",
    "PolicyError",
    "Prediction",
    "PriorityPolicy",
    "ProportionalPredictions",
    "Ratio",
    "RelativePredictions",
    "Run",
    "ServiceModel",
    "UnitTime",
    "blame",
    "compare",
    "make_policy",
    "policy_names",
    "policy_parameters",
    "ratio",
    "register_policy",
    "share_of_attainable",
    "simulate",
]

__version__: str

if not TYPE_CHECKING:  # a typed one would let every misspelt name pass

    def __getattr__(name):
        if name == "__version__":
            return _package_version()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
