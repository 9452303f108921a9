"""The serving engines that a load can be put on, one engine per file."""
