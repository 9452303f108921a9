"""Makes what the manual does not say by hand: the reference, the outputs of commands, pictures.

`make docs-update` writes all of it into the tree; tests/docs compares. The reference is made from
the headers of the SQL files, the schema, the manifest and the help of the commands, so that it can
tell nothing else than the code does.
"""
