"""`tracekit collect sweep`: a grid of runs, one folder each, resumable."""
