"""Rules that classify names of kernels, ranges, and devices."""
