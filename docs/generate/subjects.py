"""Subjects of SQL files: the folders of queries/ and their descriptions in its README."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from msgspec import Struct

from tracekit.analysis.spec import Spec

from .places import REPO

QUERIES_PAGE = "queries/README.md"

_ROW = re.compile(r"^\| \[(?P<name>\w+)\]\((?P=name)\) \| (?P<meaning>.+) \|$", re.MULTILINE)


class UnknownSubjectError(Exception):
    """An SQL file is in a folder that queries/README.md does not describe."""


class Subject(Struct, frozen=True):
    """A folder of SQL files and its description."""

    name: str
    meaning: str

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name.capitalize()

    @property
    def sentence(self) -> str:
        """The description as a sentence."""
        return f"{self.meaning[0].upper()}{self.meaning[1:]}."


@cache
def subjects() -> tuple[Subject, ...]:
    """Return the subjects in the order of queries/README.md."""
    text = (REPO / QUERIES_PAGE).read_text("utf-8")
    return tuple(Subject(match["name"], match["meaning"]) for match in _ROW.finditer(text))


def by_subject(specs: Iterable[Spec]) -> dict[Subject, list[Spec]]:
    """Return SQL files by subject, sorted by name; omit subjects without files.

    Raises:
        UnknownSubjectError: queries/README.md does not describe the folder of a file.
    """
    files: dict[str, list[Spec]] = {}
    for spec in sorted(specs, key=lambda spec: spec.name):
        files.setdefault(spec.subject, []).append(spec)
    if unknown := sorted(files.keys() - {subject.name for subject in subjects()}):
        raise UnknownSubjectError(f"{QUERIES_PAGE} does not describe the folder {unknown[0]}")
    return {subject: files[subject.name] for subject in subjects() if subject.name in files}
