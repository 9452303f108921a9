"""Makes what the manual does not say by hand: the reference, the outputs of commands, pictures.

The reference is made whenever the site is built, from the headers of the SQL files, the schema, the
manifest, docstrings and the help of the commands, and is committed nowhere. `make docs-update`
writes outputs and the picture into the tree; tests/docs compares.
"""
