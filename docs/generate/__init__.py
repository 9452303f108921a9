"""Generates the reference pages, command outputs, and pictures of the manual.

Each build of the site generates the reference from SQL headers, the schema, the manifest classes,
docstrings, and command help; it is not committed. `make docs-update` writes command outputs and the
picture of a breakdown into the repository, and tests/docs checks that they are current.
"""
