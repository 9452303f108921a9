"""SQL files, from header to result: catalog, library, relations, and runs. No formatting."""
