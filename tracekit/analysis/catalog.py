"""Finds the SQL files. To add an analysis, add one file.

Each subject has a folder. The header of a file declares its kind, such as analysis or table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
    """List entry of an analysis. `per` has the accepted values of `--per`."""

    name: str
    subject: str
    scope: str | None
    question: str
    per: tuple[str, ...] = ()


class _File(Struct, frozen=True):
    """An SQL file whose header has not been parsed."""

    text: str
    path: str
    subject: str


class Specs(Mapping[str, Spec]):
    """SQL files of one kind by name, in alphabetical order.

    A header is loaded on demand, from the library or the text. A command needs few headers, and
    parsing all of them would be noticeably slow.
    """

    def __init__(self) -> None:
        self.files: dict[str, _File] = {}
        self._read: dict[str, Spec] = {}
        self._encoded: dict[str, msgspec.Raw] = {}
        self._views: dict[str, dict[str, View]] = {}
        self._families: dict[str, dict[str, str]] = {}

    def __getitem__(self, name: str) -> Spec:
        """Return the parsed header of a file."""
        spec = self._read.get(name)
        if spec is None:
            file = self.files[name]
            if name in self._encoded:
                # The header may have been encoded by another checkout, with other paths.
                spec = replace(_DECODER.decode(self._encoded[name]), path=file.path)
            else:
                spec = parse_header(file.text, name, file.path, file.subject)
            self._read[name] = spec
        return spec

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.files)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.files)

    def __contains__(self, name: object) -> bool:
        """Return whether a file has that name, without loading its header."""
        return name in self.files

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each file."""
        for name, file in self.files.items():
            yield name, file.text

    def titles(self) -> Iterator[Title]:
        """Yield the list entry of each file, without parsing its whole header."""
        for name, file in self.files.items():
            scope = _SCOPE.search(file.text)
            question = file.text.partition("\n")[0].removeprefix("--").strip()
            per = tuple(self.families().get(name, ()))
            yield Title(name, file.subject, scope["scope"] if scope else None, question, per)

    def listed(self) -> list[Title]:
        """Return the list entries by subject; analyses that differ only in `--per` share one."""
        titles = [title for title in self.titles() if self.spelling(title.name)[1] is None]
        return sorted(titles, key=lambda title: (title.subject, title.name))

    def families(self) -> dict[str, dict[str, str]]:
        """Return the analyses that `NAME --per VALUE` selects: their names by NAME and VALUE."""
        if not self._families:
            self._families[""] = {}
            for name, file in self.files.items():
                if match := _FAMILY.search(file.text):
                    self._families.setdefault(match["head"], {})[match["per"]] = name
        return self._families

    def spelling(self, name: str) -> tuple[str, str | None]:
        """Return the displayed name of an analysis, and its value of `--per` or None."""
        match = _FAMILY.search(self.files[name].text) if name in self.files else None
        return (match["head"], match["per"]) if match else (name, None)

    def words(self, name: str) -> str:
        """Return the arguments that select an analysis on a command line."""
        head, per = self.spelling(name)
        return f"{head} --per {per}" if per else head

    def member(self, name: str, per: object) -> str:
        """Return the analysis that `name --per VALUE` selects."""
        members = self.families().get(name, {})
        if per not in members:
            hint = "one of: " + ", ".join(members) if members else "it has no parameter per"
            raise QueryError(f"{name} has no rows per {per!r}", hint=hint)
        return members[str(per)]

    def views(self, way: str) -> dict[str, View]:
        """Return the settings of one kind of view (see `header.VIEWS`), by SQL file."""
        if not self._views:
            self._views[""] = {}
            for name, file in self.files.items():
                for one, view in views_of(file.text).items():
                    self._views.setdefault(one, {})[name] = view
        return self._views.get(way, {})

    def by_subject(self) -> Result:
        """Return the names of the files by subject, each followed by its values of `--per`."""
        result: dict[str, list[str]] = {}
        for title in self.listed():
            name = f"{title.name}({'|'.join(title.per)})" if title.per else title.name
            result.setdefault(title.subject, []).append(name)
        columns = (Column("subject", "VARCHAR"), Column("analyses", "VARCHAR"))
        return Result(
            "analyses", columns, [(one, " ".join(names)) for one, names in result.items()]
        )


_DECODER = msgspec.msgpack.Decoder(Spec)


class Catalog(Struct, frozen=True):
    """All SQL files by kind and name, in alphabetical order."""

    analyses: Specs
    tables: Specs
    views: Specs
    functions: Specs

    def __iter__(self) -> Iterator[Specs]:
        """Iterate over the kinds of files."""
        yield from (self.analyses, self.tables, self.views, self.functions)

    def encoded_headers(self) -> bytes:
        """Return all headers, encoded for :meth:`decode_headers`."""
        encoder = msgspec.msgpack.Encoder()
        return encoder.encode([dict(kind) for kind in self])

    def decode_headers(self, encoded: bytes) -> None:
        """Load all headers from the output of :meth:`encoded_headers` for the same files."""
        kinds = msgspec.msgpack.decode(encoded, type=list[dict[str, msgspec.Raw]])
        for specs, headers in zip(self, kinds, strict=True):
            specs._encoded.update(headers)

    def analysis(self, name: str) -> Spec:
        """Return the analysis of that name."""
        if name in self.analyses:
            return self.analyses[name]
        raise unknown_analysis(name, self.analyses)


@cache
def _words() -> dict[str, dict[str, str]]:
    import tomllib

    text = (QUERIES / "rules" / "words.toml").read_text("utf-8")
    result: dict[str, dict[str, str]] = tomllib.loads(text)
    return result


def name_here(word: str, kind: str = "tables") -> str | None:
    """Return tracekit's name for a name in another tool; `kind` is `tables` or `columns`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|\W+", "_", word.strip('"')).lower()
    return _words()[kind].get(words.removeprefix("get_"))


def renamed(name: str) -> str:
    """Return the current name of an analysis."""
    return _words()["renamed"].get(name, name)


def unknown_analysis(name: str, known: Iterable[str]) -> QueryError:
    """Return the error for an unknown analysis, with a hint that names close matches."""
    catalog = load_catalog()
    if here := name_here(name):
        named = re.findall(r"(\w+)\(\)", here)
        hint = f"did you mean {' or '.join(named)}?" if named else f"in tracekit: {here}"
    elif name in catalog.tables or name in catalog.views:
        hint = f'it is for SQL: tracekit sql TRACE "FROM {name} LIMIT 10"'
    else:
        hint = did_you_mean(name, known) or "list them with tracekit query --list"
    return QueryError(f"no analysis named {name!r}", hint=hint)


@cache
def load_catalog(root: Path | None = None) -> Catalog:
    """Find all SQL files. Headers are loaded on demand.

    If `root` is given, instead of the installed `tracekit.queries`, all headers are loaded at once.
    """
    result: dict[Kind, Specs] = {kind: Specs() for kind in get_args(Kind)}
    paths: dict[str, str] = {}
    for name, subject, path in _sql_files(root or QUERIES):
        file = _File(path.read_text(encoding="utf-8"), str(path), subject)
        if name in paths:
            raise QueryError(f"{path}: same name as {paths[name]}")
        paths[name] = file.path
        result[_kind_of(name, file)].files[name] = file
    catalog = Catalog(result["analysis"], result["table"], result["view"], result["function"])
    if root is not None:
        for specs in result.values():
            list(specs.values())
    return catalog


def _kind_of(name: str, file: _File) -> Kind:
    """Return the kind that a file declares."""
    match = _KIND.search(file.text)
    kinds: tuple[Kind, ...] = get_args(Kind)
    for kind in kinds:
        if match is not None and {"advice": "analysis"}.get(match["kind"], match["kind"]) == kind:
            return kind
    return parse_header(file.text, name, file.path, file.subject).kind


def _sql_files(root: Path) -> list[tuple[str, str, Path]]:
    """Return the SQL files with their names and subjects, in alphabetical order."""
    results = []
    for subject in root.iterdir():
        folders = [subject] if subject.is_dir() else []
        # Folders found in a folder are appended.
        for folder in folders:
            if folder.name.startswith(("_", ".")):
                continue
            for path in folder.iterdir():
                # A leading underscore marks a file that is neither an analysis nor a relation. A
                # leading dot marks a temporary file of an editor.
                if path.name.endswith(".sql"):
                    if not path.name.startswith(("_", ".")):
                        results.append((path.name.removesuffix(".sql"), subject.name, path))
                elif path.is_dir():
                    folders.append(path)
    return sorted(results, key=lambda item: item[:2])


PACKAGE = Path(__file__).parents[1]
"""The folder of the package."""

_MAKING = (
    *(".", "ingest", "ingest/formats", "engine", "dataset"),
    *("analysis", "analysis/names", "analysis/passes"),
)
"""Packages whose code determines the rows of stores and datasets."""


def make_digest(rules: Path | None = None) -> str:
    """Return a digest of everything that determines the rows of a store, except the traces.

    It covers the version, the code that reads and derives rows (including the C library), the SQL
    files, and the rules. It reads file contents, because file times are unreliable.
    """
    digest = hashlib.sha256(_digest_of_package(PACKAGE))
    if rules is not None and rules.is_file():
        digest.update(rules.read_bytes())
    return digest.hexdigest()


def cache_digest(rules: Path | None = None) -> str:
    """Return a digest of everything that determines a cached store, including analyses."""
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
                # Unbuffered reads are faster, and every command that opens a trace computes this.
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
