"""Callbacks for third-party trainers, one module per library, based on `tracekit.collect`."""
