"""Trace files of tests."""

import gzip
import json


def read_trace(path):
    """Return the content of a trace, which may be compressed."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
