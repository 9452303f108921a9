"""torch.profiler, ours and the loop's own."""
