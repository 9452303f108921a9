"""Predicts the effect of changes on a run by replaying its dependency graph."""
