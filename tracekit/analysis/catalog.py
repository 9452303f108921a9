"""Find the SQL files: adding an analysis is adding one file.

They lie in a folder for each subject; what a file is, an analysis or a table, its header says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

from tracekit import __version__
from tracekit.analysis.header import View, parse_header, views_of
from tracekit.analysis.result import Column, Result
from tracekit.analysis.spec import Kind, Spec
from tracekit.errors import QueryError, did_you_mean

QUERIES = Path(__file__).parents[1] / "queries"
"""The folder of the SQL files."""

_KIND = re.compile(r"^--[ ]?Kind:[ \t]*(?P<kind>\w+)[ \t]*$", re.MULTILINE)


_SCOPE = re.compile(r"^--[ ]?Scope:[ \t]*(?P<scope>\w+)[ \t]*$", re.MULTILINE)
_FAMILY = re.compile(r"^-- Family:[ \t]*(?P<head>\w+) per (?P<per>\w+)[ \t]*$", re.MULTILINE)


class Title(NamedTuple):
    """What a list shows of an analysis; `per` are the values of its parameter `per`."""

    name: str
    subject: str
    scope: str | None
    question: str
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """A SQL file whose header is not read yet."""

    text: str
    path: str
    subject: str


@dataclass(frozen=True, slots=True)
class Specs(Mapping[str, Spec]):
    """SQL files of one kind by name, in alphabetical order.

    A header is read when it is asked for, from the library or the text: a command needs a few of
    them, and reading all is a noticeable part of its time.
    """

    files: dict[str, _File] = field(default_factory=dict)
    _read: dict[str, Spec] = field(default_factory=dict)
    _encoded: dict[str, msgspec.Raw] = field(default_factory=dict)
    _views: dict[str, dict[str, View]] = field(default_factory=dict)
    _families: dict[str, dict[str, str]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Spec:
        """Return what the header of a file says.

        Raises:
            KeyError: there is no such file.
            QueryError: the header cannot be read.
        """
        spec = self._read.get(name)
        if spec is None:
            file = self.files[name]
            if name in self._encoded:
                # It may have been encoded in another checkout.
                spec = replace(_DECODER.decode(self._encoded[name]), path=file.path)
            else:
                spec = parse_header(file.text, name, file.path, file.subject)
            self._read[name] = spec
        return spec

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.files)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.files)

    def __contains__(self, name: object) -> bool:
        """Whether there is a file of that name; its header is not read for that."""
        return name in self.files

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the names and the texts of the files."""
        for name, file in self.files.items():
            yield name, file.text

    def titles(self) -> Iterator[Title]:
        """Yield what a list shows of each file, for which its header need not be read whole."""
        for name, file in self.files.items():
            scope = _SCOPE.search(file.text)
            question = file.text.partition("\n")[0].removeprefix("--").strip()
            per = tuple(self.families().get(name, ()))
            yield Title(name, file.subject, scope["scope"] if scope else None, question, per)

    def listed(self) -> list[Title]:
        """Return what a list shows, by subject: of a family its head."""
        titles = [title for title in self.titles() if self.spelling(title.name)[1] is None]
        return sorted(titles, key=lambda title: (title.subject, title.name))

    def families(self) -> dict[str, dict[str, str]]:
        """Return the names of the other members of each family, by the value of `per`."""
        if not self._families:
            self._families[""] = {}
            for name, file in self.files.items():
                if found := _FAMILY.search(file.text):
                    self._families.setdefault(found["head"], {})[found["per"]] = name
        return self._families

    def spelling(self, name: str) -> tuple[str, str | None]:
        """Return the name of an analysis for people, and the value of `per`."""
        found = _FAMILY.search(self.files[name].text) if name in self.files else None
        return (found["head"], found["per"]) if found else (name, None)

    def words(self, name: str) -> str:
        """Return the words of a command line that choose an analysis."""
        head, per = self.spelling(name)
        return f"{head} --per {per}" if per else head

    def member(self, name: str, per: object) -> str:
        """Return the member of a family that has a row per `per`.

        Raises:
            QueryError: the analysis has no such parameter or value.
        """
        members = self.families().get(name, {})
        if per not in members:
            hint = "one of: " + ", ".join(members) if members else "it has no parameter per"
            raise QueryError(f"{name} has no rows per {per!r}", hint=hint)
        return members[str(per)]

    def views(self, way: str) -> dict[str, View]:
        """Return how files say that they are shown in one way, by name; `header.VIEWS` has all."""
        if not self._views:
            self._views[""] = {}
            for name, file in self.files.items():
                for found, view in views_of(file.text).items():
                    self._views.setdefault(found, {})[name] = view
        return self._views.get(way, {})

    def by_subject(self) -> Result:
        """Return the names of the files by subject, with the values of `per` in parentheses."""
        found: dict[str, list[str]] = {}
        for title in self.listed():
            name = f"{title.name}({'|'.join(title.per)})" if title.per else title.name
            found.setdefault(title.subject, []).append(name)
        columns = (Column("subject", "VARCHAR"), Column("analyses", "VARCHAR"))
        return Result("analyses", columns, [(one, " ".join(names)) for one, names in found.items()])


_DECODER = msgspec.msgpack.Decoder(Spec)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every SQL file by kind and name, in alphabetical order."""

    analyses: Specs
    tables: Specs
    views: Specs
    functions: Specs

    def __iter__(self) -> Iterator[Specs]:
        """Iterate over the kinds of files."""
        yield from (self.analyses, self.tables, self.views, self.functions)

    def encoded_headers(self) -> bytes:
        """Return what :meth:`decode_headers` takes."""
        encoder = msgspec.msgpack.Encoder()
        return encoder.encode([dict(kind) for kind in self])

    def decode_headers(self, encoded: bytes) -> None:
        """Take the headers of all files from what was encoded of the same files."""
        kinds = msgspec.msgpack.decode(encoded, type=list[dict[str, msgspec.Raw]])
        for specs, headers in zip(self, kinds, strict=True):
            specs._encoded.update(headers)

    def analysis(self, name: str) -> Spec:
        """Return the analysis of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        if name in self.analyses:
            return self.analyses[name]
        raise unknown_analysis(name, self.analyses)


@cache
def _words() -> dict[str, dict[str, str]]:
    import tomllib

    text = (QUERIES / "rules" / "words.toml").read_text("utf-8")
    found: dict[str, dict[str, str]] = tomllib.loads(text)
    return found


def name_here(word: str, kind: str = "tables") -> str | None:
    """Return what a word of another tool is called here; `kind` is `tables` or `columns`."""
    return _words()[kind].get(word.strip('"').lower().removeprefix("get_"))


def renamed(name: str) -> str:
    """Return the name of today of an analysis."""
    return _words()["renamed"].get(name, name)


def unknown_analysis(name: str, known: Iterable[str]) -> QueryError:
    """Return the error of an analysis that there is not, with a hint at what there is."""
    catalog = load_catalog()
    if here := name_here(name):
        hint = f"in tracekit: {here}"
    elif name in catalog.tables or name in catalog.views:
        hint = f'it is for SQL: tracekit sql TRACE "FROM {name} LIMIT 10"'
    else:
        hint = did_you_mean(name, known) or "list them with tracekit query --list"
    return QueryError(f"no analysis named {name!r}", hint=hint)


@cache
def load_catalog(root: Path | None = None) -> Catalog:
    """Find every SQL file; the header of one is read when it is asked for.

    In a `root` other than the installed `tracekit.queries`, all headers are read at once.

    Raises:
        QueryError: a header that cannot be read, or two files of one name.
    """
    found: dict[Kind, Specs] = {kind: Specs() for kind in get_args(Kind)}
    paths: dict[str, str] = {}
    for name, subject, path in _sql_files(root or QUERIES):
        file = _File(path.read_text(encoding="utf-8"), str(path), subject)
        if name in paths:
            raise QueryError(f"{path}: same name as {paths[name]}")
        paths[name] = file.path
        found[_kind_of(name, file)].files[name] = file
    catalog = Catalog(found["analysis"], found["table"], found["view"], found["function"])
    if root is not None:
        for specs in found.values():
            list(specs.values())
    return catalog


def _kind_of(name: str, file: _File) -> Kind:
    """Return the kind that a file declares.

    Raises:
        QueryError: it declares none.
    """
    match = _KIND.search(file.text)
    kinds: tuple[Kind, ...] = get_args(Kind)
    for kind in kinds:
        if match is not None and {"advice": "analysis"}.get(match["kind"], match["kind"]) == kind:
            return kind
    return parse_header(file.text, name, file.path, file.subject).kind


def _sql_files(root: Path) -> list[tuple[str, str, Path]]:
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


PACKAGE = Path(__file__).parents[1]
"""The folder of the package."""

_MAKING = (".", "ingest", "analysis", "engine", "dataset")
"""The folders of the package that make rows of stores and datasets, or describe them."""


def make_digest(rules: Path | None = None) -> str:
    """Return a digest of everything but the traces that decides what a store holds.

    That is the version, the code that reads and derives, compiled modules among it, the SQL files
    and the rules. The contents count: times of files say nothing about them.
    """
    digest = hashlib.sha256(_digest_of_package(PACKAGE))
    if rules is not None and rules.is_file():
        digest.update(rules.read_bytes())
    return digest.hexdigest()


def cache_digest(rules: Path | None = None) -> str:
    """Return a digest of all that decides what a store of the cache holds: analyses, too."""
    digest = hashlib.sha256(make_digest(rules).encode())
    for name, sql in load_catalog().analyses.texts():
        digest.update(f"{name}\0{sql}\0".encode())
    return digest.hexdigest()


@cache
def _digest_of_package(package: Path) -> bytes:
    digest = hashlib.sha256(__version__.encode())
    for folder in _MAKING:
        for path in sorted((package / folder).iterdir()):
            if path.suffix in {".py", ".so", ".pyd"}:
                # Without a buffer: every command that opens a trace takes the time.
                with path.open("rb", buffering=0) as source:
                    digest.update(f"{path.name}\0".encode())
                    digest.update(source.read())
    catalog = load_catalog()
    derived = {"function": catalog.functions, "table": catalog.tables, "view": catalog.views}
    for kind, specs in derived.items():
        for name, sql in specs.texts():
            digest.update(f"{kind} {name}\0{sql}\0".encode())
    for file in sorted((QUERIES / "rules").glob("*.toml")):
        digest.update(file.read_bytes())
    return digest.digest()
