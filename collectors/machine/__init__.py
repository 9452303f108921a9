"""Accelerators and memory of the machine."""
