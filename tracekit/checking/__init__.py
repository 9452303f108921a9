"""Rules that a run must keep, and the baselines that it is held against."""
