"""The subjects of the SQL files: the folders of queries/, as its page describes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tracekit.analysis.spec import Spec

from .places import REPO

QUERIES_PAGE = "queries/README.md"

_ROW = re.compile(r"^\| \[(?P<name>\w+)\]\((?P=name)\) \| (?P<meaning>.+) \|$", re.MULTILINE)


class UnknownSubjectError(Exception):
    """A SQL file lies in a folder that the page of the queries does not describe."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A folder of SQL files and what is in it."""

    name: str
    meaning: str

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name.capitalize()

    @property
    def sentence(self) -> str:
        """What is in it, as a sentence."""
        return f"{self.meaning[0].upper()}{self.meaning[1:]}."


@cache
def subjects() -> tuple[Subject, ...]:
    """Return the subjects in the order of the page that describes them."""
    text = (REPO / QUERIES_PAGE).read_text("utf-8")
    return tuple(Subject(found["name"], found["meaning"]) for found in _ROW.finditer(text))


def by_subject(specs: Iterable[Spec]) -> dict[Subject, list[Spec]]:
    """Return SQL files by subject, each subject that has one, sorted by name.

    Raises:
        UnknownSubjectError: a file lies in a folder that the page does not describe.
    """
    inside: dict[str, list[Spec]] = {}
    for spec in sorted(specs, key=lambda spec: spec.name):
        inside.setdefault(spec.subject, []).append(spec)
    if unknown := sorted(inside.keys() - {subject.name for subject in subjects()}):
        raise UnknownSubjectError(f"{QUERIES_PAGE} does not describe the folder {unknown[0]}")
    return {subject: inside[subject.name] for subject in subjects() if subject.name in inside}
