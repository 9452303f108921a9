"""Loads the user's SQL files from given folders and the user's configuration.

They have the same headers as built-in files. SQL files in run folders are ignored, because others
may have written them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from tracekit.analysis.catalog import load_catalog, unknown_analysis
from tracekit.analysis.header import parse_header
from tracekit.analysis.spec import Spec
from tracekit.errors import QueryError, UsageError
from tracekit.schema import TABLES

Origin = Literal["--queries", "configuration"]
"""Origin of a file: a given folder, or the user's configuration."""

ENVIRONMENT = "TRACEKIT_QUERIES"
"""Environment variable with the default folders, separated as in PATH."""


class OwnFile(Struct, frozen=True):
    """A usable SQL file of the user."""

    spec: Spec
    origin: Origin


class RefusedFile(Struct, frozen=True):
    """An SQL file that cannot be used, and the reason."""

    name: str
    reason: str
    hint: str | None = None


class Library(Struct, frozen=True):
    """The user's SQL files by name, in alphabetical order, and the unusable ones."""

    files: dict[str, OwnFile] = field(default_factory=dict)
    refused: tuple[RefusedFile, ...] = ()

    @property
    def analyses(self) -> dict[str, OwnFile]:
        """The files that are analyses."""
        return {name: own for name, own in self.files.items() if own.spec.kind == "analysis"}

    def analysis(self, name: str) -> OwnFile:
        """Return the analysis of that name."""
        result = self.analyses.get(name)
        if result is not None:
            return result
        for refused in self.refused:
            if refused.name == name:
                raise QueryError(refused.reason, hint=refused.hint)
        known = sorted({*load_catalog().analyses, *self.analyses})
        raise unknown_analysis(name, known)


def load_library(given: Sequence[Path] = ()) -> Library:
    """Find the user's SQL files.

    If two files have the same name, the file in a given folder is used, and the file in the
    configuration is rejected.
    """
    places: list[tuple[Path, Origin]] = [(folder, "--queries") for folder in dict.fromkeys(given)]
    places.append((config_folder(), "configuration"))
    files: dict[str, OwnFile] = {}
    refused: list[RefusedFile] = []
    for folder, origin in places:
        if origin == "--queries" and not folder.is_dir():
            raise UsageError(f"{folder}: no such folder", hint="--queries expects a folder")
        for path in _sql_files(folder, origin):
            try:
                own = OwnFile(_read(path), origin)
                _check_name(own.spec, files)
            except QueryError as error:
                if origin == "--queries":
                    raise
                refused.append(RefusedFile(path.stem, error.message, error.hint))
            else:
                files[own.spec.name] = own
    return Library(dict(sorted(files.items())), tuple(refused))


def given_folders(folders: Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the given folders, or else the folders in TRACEKIT_QUERIES."""
    if folders:
        return tuple(Path(folder).expanduser() for folder in folders)
    named = os.environ.get(ENVIRONMENT, "").split(os.pathsep)
    return tuple(Path(folder).expanduser() for folder in named if folder)


def config_folder() -> Path:
    """Return the folder of the user's SQL files, in the XDG configuration folder."""
    xdg = os.environ.get("XDG_CONFIG_HOME")
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".config"
    return base / "tracekit" / "queries"


def _read(path: Path) -> Spec:
    """Read one file."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise QueryError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise QueryError(f"{path}: not UTF-8") from error
    return parse_header(text, path.stem, str(path), path.parent.name)


def _check_name(spec: Spec, files: dict[str, OwnFile]) -> None:
    catalog = load_catalog()
    built_in = {
        **dict.fromkeys((table.name for table in TABLES), "a table"),
        **dict.fromkeys(catalog.functions, "a function"),
        **dict.fromkeys(catalog.tables, "a table"),
        **dict.fromkeys(catalog.views, "a view"),
        **dict.fromkeys(catalog.analyses, "an analysis"),
    }
    if spec.name in built_in:
        raise QueryError(
            f"{spec.path}: tracekit already has {built_in[spec.name]} named {spec.name}",
            hint="rename the file",
        )
    if spec.name in files:
        raise QueryError(
            f"{spec.path}: same name as {files[spec.name].spec.path}",
            hint="rename one of them",
        )


def _sql_files(folder: Path, origin: Origin) -> Iterator[Path]:
    """Yield the SQL files of a folder and its subfolders, in alphabetical order."""
    try:
        inside = [folder, *sorted(path for path in folder.iterdir() if _is_subject(path))]
        yield from [
            path
            for place in inside
            for path in sorted(place.iterdir())
            if path.suffix == ".sql" and not path.name.startswith(("_", ".")) and path.is_file()
        ]
    except OSError as error:
        if origin == "--queries":
            raise UsageError(f"{folder}: cannot be read: {error.strerror or error}") from error


def _is_subject(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(("_", "."))
