"""The command lines of the collectors: what their options are made of, and notices."""
