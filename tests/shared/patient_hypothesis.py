"""Hypothesis without limits of time: no test may fail because the machine is busy."""

from hypothesis import HealthCheck, settings


def load():
    """Make it the default for tests without their own settings."""
    settings.register_profile(
        "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("patient")
