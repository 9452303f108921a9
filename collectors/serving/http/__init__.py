"""Engines that answer over HTTP."""
