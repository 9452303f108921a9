"""torch.profiler, started by tracekit or by the loop."""
