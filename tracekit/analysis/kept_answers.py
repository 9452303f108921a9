"""What a breakdown found, kept with its cached store: the next one need not even open that.

They hold as long as the code, the SQL of analyses and that of what they read is the same; of the
traces and of rules, the name of the cached store is made.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from tracekit.analysis.catalog import load_catalog, make_digest
from tracekit.analysis.result import Column, Result
from tracekit.database import answers_path, atomic_path
from tracekit.units import MB

MAX_BYTES = 8 * MB
"""Longer ones are sooner found again."""


def keep_answers(store: Path, answers: Mapping[str, Result]) -> None:
    """Keep the rows of analyses, unless JSON would change any of them or nothing can be written."""
    tables = {
        name: ([(column.name, column.type) for column in one.columns], one.rows)
        for name, one in answers.items()
    }
    with contextlib.suppress(OSError, TypeError, ValueError):
        text = json.dumps([_digest(), tables])
        if len(text) <= MAX_BYTES and _read(text) == answers:
            path = answers_path(store)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with atomic_path(path) as building:
                building.touch(0o600)
                building.write_text(text, "utf-8")


def kept_answers(store: Path) -> dict[str, Result]:
    """Return the rows that are kept with a store, by the names of their analyses."""
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        return _read(answers_path(store).read_text("utf-8"))
    return {}


def _read(text: str) -> dict[str, Result]:
    digest, tables = json.loads(text)
    if digest != _digest():
        return {}
    return {
        name: Result(name, tuple(Column(*one) for one in columns), [tuple(row) for row in rows])
        for name, (columns, rows) in tables.items()
    }


def _digest() -> str:
    catalog = load_catalog()
    digest = hashlib.sha256(make_digest().encode())
    for specs in (catalog.temporaries, catalog.analyses):
        for name, sql in specs.texts():
            digest.update(f"{name}\0{sql}\0".encode())
    return digest.hexdigest()
