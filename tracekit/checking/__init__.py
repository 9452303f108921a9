"""CI rules for runs, and baselines."""
