"""Microbenchmarks of `tracekit bench`, which writes raw times to a run folder of stage `bench`."""
