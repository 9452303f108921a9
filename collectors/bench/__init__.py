"""Microbenchmarks of `tracekit bench`: raw times of points in a run folder of stage `bench`."""
