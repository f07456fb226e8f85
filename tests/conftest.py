"""Settings shared by all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Tests run on every core already: threads of BLAS that wait for work would spin beside them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile(
    "full",
    max_examples=100,
    # A solver call takes as long as the machine lets it: no deadline for a single example.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    # The same examples in every run, so that a red build is red again when it is repeated.
    derandomize="CI" in os.environ,
)
settings.register_profile("quick", settings.get_profile("full"), max_examples=25)
settings.register_profile("thorough", settings.get_profile("full"), max_examples=2000)


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile before the tests, whose numbers of examples follow it, are imported."""
    quick = "not slow" in config.option.markexpr
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("quick" if quick else "full"))
