"""Reads traces of many ranks: units of work, and the engines that run them."""
