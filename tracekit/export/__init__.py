"""Export of traces to Perfetto and flame graphs."""
