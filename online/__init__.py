"""Online scheduling without knowledge of the future: simulator, policies and ratios."""

from __future__ import annotations

from instances.batch_time import AffineTime, IterationTime, TiledTime
from instances.version import __version__  # noqa: F401

from . import policies as _policies  # registers the policies
from . import routers as _routers  # registers the routers
from .policy_interface.lookahead import PriorityPolicy
from .policy_interface.policy import (
    Decision,
    KnowledgeError,
    Policy,
    PolicyError,
    policy_names,
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
from .policy_interface.router import ReplicaView, Router, register_router, router_names
from .policy_interface.specs import make_policy, make_router
from .simulation.run import IncompleteRunError, Run
from .simulation.schedules import NoScheduleError
from .simulation.simulator import simulate
from .trials.intervals import Interval, ratio
from .trials.store import read_trials
from .trials.sweep import sweep
from .trials.table import frame, paired, table
from .trials.trial import Trial

del _policies, _routers

__all__ = [
    "AffineTime",
    "BucketPredictions",
    "Decision",
    "ExactPredictions",
    "IncompleteRunError",
    "Interval",
    "IntervalPredictions",
    "IterationTime",
    "KnowledgeError",
    "NoScheduleError",
    "NoisyPredictions",
    "Policy",
    "PolicyError",
    "Prediction",
    "PriorityPolicy",
    "ProportionalPredictions",
    "RelativePredictions",
    "ReplicaView",
    "Router",
    "Run",
    "TiledTime",
    "Trial",
    "frame",
    "make_policy",
    "make_router",
    "paired",
    "policy_names",
    "ratio",
    "read_trials",
    "register_policy",
    "register_router",
    "router_names",
    "simulate",
    "sweep",
    "table",
]
