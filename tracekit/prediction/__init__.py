"""What would it be if: changes of a recorded run, replayed on its dependency graph."""
