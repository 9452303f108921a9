"""Files on local disks, object stores, and web servers."""

from tracekit.storage.location import Location, Place, contains_file, natural, place_of

__all__ = ["Location", "Place", "contains_file", "natural", "place_of"]
