"""Files on local disks, object stores, and web servers."""

from tracekit.storage.location import Location, Place, lies_in, natural, place_of

__all__ = ["Location", "Place", "lies_in", "natural", "place_of"]
