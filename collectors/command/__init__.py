"""The command lines of the collectors: their arguments as data, and as options of click."""
