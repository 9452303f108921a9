"""torch.profiler, and what steps take without it."""
