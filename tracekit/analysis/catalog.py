"""Find the SQL files: adding an analysis is adding one file.

They lie in a folder for each subject; what a file is, an analysis or a table, its header says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from tracekit.analysis.header import parse_header
from tracekit.analysis.spec import Kind, Spec
from tracekit.errors import QueryError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


_KIND = re.compile(r"^--[ ]?Kind:[ \t]*(?P<kind>\w+)[ \t]*$", re.MULTILINE)


_SCOPE = re.compile(r"^--[ ]?Scope:[ \t]*(?P<scope>\w+)[ \t]*$", re.MULTILINE)


class Title(NamedTuple):
    """What a list shows of an analysis."""

    name: str
    subject: str
    scope: str | None
    question: str


@dataclass(frozen=True, slots=True)
class _File:
    """A SQL file whose header is not read yet."""

    text: str
    path: str
    subject: str


@dataclass(frozen=True, slots=True)
class Specs(Mapping[str, Spec]):
    """SQL files of one kind by name, in alphabetical order.

    A header is read when it is asked for: a command needs a few of them, and reading all is a
    noticeable part of its time.
    """

    _files: dict[str, _File] = field(default_factory=dict)
    _read: dict[str, Spec] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Spec:
        """Return what the header of a file says.

        Raises:
            KeyError: there is no such file.
            QueryError: the header cannot be read.
        """
        spec = self._read.get(name)
        if spec is None:
            file = self._files[name]
            spec = parse_header(file.text, name, file.path, file.subject)
            self._read[name] = spec
        return spec

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._files)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._files)

    def __contains__(self, name: object) -> bool:
        """Whether there is a file of that name; its header is not read for that."""
        return name in self._files

    def add(self, name: str, file: _File) -> None:
        """Have one more file."""
        self._files[name] = file

    def __or__(self, other: Mapping[str, Spec]) -> dict[str, Spec]:
        """Return the files of both, their headers read."""
        return {**self, **other}

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the names and the texts of the files."""
        for name, file in self._files.items():
            yield name, file.text

    def titles(self) -> Iterator[Title]:
        """Yield what a list shows of each file, for which its header need not be read whole."""
        for name, file in self._files.items():
            scope = _SCOPE.search(file.text)
            question = file.text.partition("\n")[0].removeprefix("--").strip()
            yield Title(name, file.subject, scope["scope"] if scope else None, question)

    def read_all(self) -> None:
        """Read every header.

        Raises:
            QueryError: one of them cannot be read.
        """
        for name in self._files:
            self[name]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every analysis, materialised table, view and macro file by name, in alphabetical order."""

    analyses: Specs
    tables: Specs
    views: Specs
    macros: Specs

    def analysis(self, name: str) -> Spec:
        """Return the analysis of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.analyses, "analysis", name)

    def table(self, name: str) -> Spec:
        """Return the materialised table of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.tables, "table", name)

    def view(self, name: str) -> Spec:
        """Return the view of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.views, "view", name)

    def macro(self, name: str) -> Spec:
        """Return the macro file of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.macros, "macro", name)


@cache
def load_catalog(root: Path | None = None) -> Catalog:
    """Find every SQL file; the header of one is read when it is asked for.

    Args:
        root: a folder of folders of SQL files, whose headers are all read at once; the installed
            `tracekit.queries` if None.

    Raises:
        QueryError: a header that cannot be read, or two files of one name.
    """
    found: dict[Kind, Specs] = {kind: Specs() for kind in get_args(Kind)}
    paths: dict[str, str] = {}
    base = files("tracekit.queries") if root is None else root
    for name, subject, path in _sql_files(base):
        file = _File(path.read_text(encoding="utf-8"), str(path), subject)
        if name in paths:
            raise QueryError(f"{path}: {paths[name]} is of the same name")
        paths[name] = file.path
        found[_kind_of(name, file)].add(name, file)
    catalog = Catalog(
        analyses=found["analysis"],
        tables=found["table"],
        views=found["view"],
        macros=found["macro"],
    )
    if root is not None:
        for specs in found.values():
            specs.read_all()
    return catalog


def _kind_of(name: str, file: _File) -> Kind:
    """Return the kind that a file declares.

    Raises:
        QueryError: it declares none.
    """
    match = _KIND.search(file.text)
    kinds: tuple[Kind, ...] = get_args(Kind)
    for kind in kinds:
        if match is not None and match["kind"] == kind:
            return kind
    return parse_header(file.text, name, file.path, file.subject).kind


def _sql_files(root: Traversable) -> list[tuple[str, str, Traversable]]:
    """Return the SQL files with their names and subjects, in alphabetical order."""
    found = []
    for folder in root.iterdir():
        if folder.name.startswith(("_", ".")) or not folder.is_dir():
            continue
        for file in folder.iterdir():
            # A leading underscore marks a file that is not a feature, a leading dot an editor's
            # leftovers.
            if file.name.endswith(".sql") and not file.name.startswith(("_", ".")):
                found.append((file.name.removesuffix(".sql"), folder.name, file))
    return sorted(found, key=lambda item: item[:2])


def _named(specs: Mapping[str, Spec], what: str, name: str) -> Spec:
    if name in specs:
        return specs[name]
    close = get_close_matches(name, specs, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(specs)}"
    raise QueryError(f"there is no {what} named {name!r}", hint=hint if specs else None)
