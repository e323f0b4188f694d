"""Hypothesis profiles: quick by default, deep for `make laws`; no deadlines, wall time is not a law."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "deep", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("CLEW_HYPOTHESIS", "quick"))
