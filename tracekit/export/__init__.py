"""Traces for the viewers of others: Perfetto's protobuf and Chrome's JSON.

What is shown is in the store, or in macros of queries/export; here it is only written down.
"""
