"""Serving engines over HTTP."""
