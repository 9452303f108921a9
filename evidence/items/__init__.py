"""What the evidence pack tries out: one script an item, each run in a process of its own."""
