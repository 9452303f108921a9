"""What is sent to a serving engine, when, and what became of it: the same for every engine."""
