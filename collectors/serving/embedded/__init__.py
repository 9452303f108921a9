"""The engine that runs in this process."""
