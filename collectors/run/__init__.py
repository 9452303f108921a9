"""Output of every run: folder, manifest, traces, and environment."""
