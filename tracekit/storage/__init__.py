"""Where bytes lie: on a local disk, or behind a URL of an object store or a web server."""

from tracekit.storage.location import Location, Place, has_query, lies_in, natural, place_of

__all__ = ["Location", "Place", "has_query", "lies_in", "natural", "place_of"]
