"""How well noise is told from differences, worked out on the steps of a real run."""
