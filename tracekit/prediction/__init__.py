"""Predictions for a changed run: replays of its dependency graph."""
