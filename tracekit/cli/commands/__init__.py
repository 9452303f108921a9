"""Commands of tracekit, one per file, imported on use."""
