"""Guarded reading of files that are no trace: project files, rules, baselines, manifests.

Anybody may have written them. A file must be a regular one and of a bounded size; it is parsed in
time linear in that, into values of bounded depth. What is wrong with it is one `ValueError`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from typing import Any

from tracekit.storage import Location, Place
from tracekit.storage.location import SMALL_FILE_BYTES
from tracekit.units import MB

MAX_TOML_BYTES = 1 * MB
_MAX_DEPTH = 100
_MAX_KEY_PARTS = 50
_MAX_VALUES = 4_000_000
_MAX_BITS = 1000  # of an integer: any is a finite float

# Strings and comments of TOML, in which a dot is no part of a key; each matches up to its end or to
# that of the file, so that nothing is scanned twice.
_TOML_TEXT = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+' + r"|'''(?:[^']++|'(?!''))*+"
    r'|"(?:[^"\\\n]++|\\.)*+"?' + r"|'[^'\n]*+'?|\#[^\n]*+",
    re.DOTALL,
)


def read_small(place: Place, most_bytes: int = SMALL_FILE_BYTES) -> bytes:
    """Return the content of a small file.

    Raises:
        OSError: it cannot be read, is longer, or is no regular file, such as a FIFO without an end.
    """
    path = Location.of(place).local_path
    if path is None:
        return Location.of(place).read_bytes(most_bytes)
    # Without this, opening a FIFO waits until somebody writes into it.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"longer than {most_bytes:,} bytes", str(path))
    return data


def parse_json(data: bytes, kind: Any = None) -> Any:
    """Return what JSON holds, as an object of a `kind` that msgspec knows, if one is given.

    Raises:
        ValueError: it is no JSON, nested too deeply, too much, or of another kind.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise ValueError(f"more than {_MAX_VALUES:,} values")
    try:
        return _checked(json.loads(data), kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_toml(data: bytes, kind: Any = None) -> Any:
    """Return what TOML holds; the same as of JSON."""
    import tomllib

    text = data.decode("utf-8")
    # Python's reader takes the square of the parts of a key.
    plain = _TOML_TEXT.sub("", text)
    if max(part.count(".") for part in re.split("[=,\n]", plain)) >= _MAX_KEY_PARTS:
        raise ValueError("a key has too many parts")
    try:
        return _checked(tomllib.loads(text), kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _checked(value: Any, kind: Any) -> Any:
    level = [value]
    for _ in range(_MAX_DEPTH):
        if any(isinstance(one, int) and one.bit_length() > _MAX_BITS for one in level):
            raise ValueError("a number has too many digits")
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [i for one in inner for i in (one.values() if isinstance(one, dict) else one)]
        if not level:
            break
    else:
        raise ValueError(f"nested more than {_MAX_DEPTH} deep")
    if kind is None:
        return value
    # Imported here: a program that is recorded loads manifests, and may have a msgspec.py.
    import msgspec

    return msgspec.convert(value, kind)
