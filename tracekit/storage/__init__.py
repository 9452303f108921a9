"""Where bytes lie: on a local disk, or behind a URL of an object store or a web server."""

from tracekit.storage.location import Location

__all__ = ["Location"]
