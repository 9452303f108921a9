"""Safe reading of small files: project files, rules, baselines, and manifests.

These files are untrusted. Only regular files of limited size are read. They are parsed in linear
time into values of limited depth. Invalid content raises `ValueError`.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from typing import Any

from tracekit.storage import Location, Place
from tracekit.storage.location import SMALL_FILE_BYTES
from tracekit.units import KB

MAX_TOML_BYTES = 256 * KB
_MAX_DEPTH, _MAX_KEY_PARTS, _MAX_VALUES = 100, 20, 4_000_000
_MAX_NUMBER = 1e100  # Squares of larger numbers can exceed a float.

# TOML strings and comments, in which dots do not separate key parts. Matches in linear time.
_TOML_TEXT = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{0,5}' + r"|'''(?:[^']++|'(?!''))*+'{0,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"?' + r"|'[^'\n]*+'?|\#[^\n]*+",
    re.DOTALL,
)


def read_small(place: Place, most_bytes: int = SMALL_FILE_BYTES) -> bytes:
    """Return the content of a small file.

    Raises:
        OSError: it cannot be read, is too long, or is not a regular file (such as a FIFO).
    """
    path = Location.of(place).local_path
    if path is None:
        return Location.of(place).read_bytes(most_bytes)
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"longer than {most_bytes:,} bytes", str(path))
    return data


def parse_json(data: bytes) -> Any:
    """Return the value of JSON text."""
    if sum(map(data.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise ValueError(f"more than {_MAX_VALUES:,} values")
    try:
        return _checked(json.loads(data))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_toml(data: bytes) -> Any:
    """Return the value of TOML text."""
    import tomllib

    text = data.decode("utf-8")
    # Python's parser takes quadratic time in the number of key parts.
    if max(one.count(".") for one in re.split("[=,\n]", _TOML_TEXT.sub("", text))) > _MAX_KEY_PARTS:
        raise ValueError("a key has too many parts")
    try:
        return _checked(tomllib.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _checked(value: Any) -> Any:
    level = [value]
    for _ in range(_MAX_DEPTH):
        if any(isinstance(i, int | float) and _MAX_NUMBER < abs(i) < math.inf for i in level):
            raise ValueError("a number is too large")
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [i for one in inner for i in (one.values() if isinstance(one, dict) else one)]
    if level:
        raise ValueError(f"nested more than {_MAX_DEPTH} deep")
    return value
