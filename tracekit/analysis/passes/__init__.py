"""Sequential walks over the events of a trace, in native code."""
