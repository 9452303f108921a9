"""Read the header of a SQL file.

The header is the run of `--` lines at the top of the file:

    -- The question in one line?
    -- Optional further lines.
    --
    -- Kind:     analysis | view | table | macro
    -- Scope:    trace | run | runs                   (analyses)
    -- Requires: other, names
    -- Reduces:  analyses, other limit=0              (analyses of scope run)
    -- Params:
    --   name  BIGINT = 0  meaning, unit              (no `= …`: required; `= NULL`: may be unset)
    --   sort  VARCHAR{total|mean} = total  meaning   (one of these values)
    -- Columns:
    --   name  INTEGER  meaning
    --         a line that is indented further continues the one above
    -- Keep:      columns, the last to go where a screen is too narrow for all
    -- Invariant: condition over the columns, true for every row (repeatable)
    -- Note: free text (repeatable)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import get_args

from tracekit.analysis.params import PARAM_TYPES, default_of
from tracekit.analysis.spec import ColumnSpec, Kind, Param, Reduced, Scope, Spec
from tracekit.errors import QueryError, UsageError

__all__ = ["ColumnSpec", "Param", "Spec", "parse_header"]

_FIELDS = ("Kind", "Scope", "Requires", "Reduces", "Params", "Columns", "Keep", "Invariant", "Note")
_KINDS = "one of: " + ", ".join(get_args(Kind))
_SCOPES = "one of: " + ", ".join(get_args(Scope))
_REPEATABLE = ("Invariant", "Note")

_FIELD = re.compile(r"(?P<name>[A-Za-z]+):[ \t]*(?P<value>.*)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REDUCED = re.compile(rf"(?P<name>{_NAME.pattern})(?P<params>(?:\s+{_NAME.pattern}=[^\s,=]+)*)")
_TYPE = r"[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?:\[\])*"
_PARAM = re.compile(
    rf"(?P<name>[a-z][a-z0-9_]*)\s+(?P<type>{_TYPE})"
    r"(?:\{(?P<choices>[^{}]+)\})?"
    r"(?:\s*=\s*(?P<default>'(?:[^']|'')*'|\S+))?"
    r"\s+(?P<meaning>[^=\s].*)"
)
_COLUMN = re.compile(rf"(?P<name>[a-z][a-z0-9_]*)\s+(?P<type>{_TYPE})\s+(?P<meaning>\S.*)")
# Comments, texts and quoted names are skipped as wholes, so that a `$` inside them is no parameter.
SQL_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<param>[A-Za-z_]\w*)", re.DOTALL
)


@dataclass
class _Field:
    """One field as written: the text after the colon and the indented lines below it."""

    name: str
    value: str
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The field as one line."""
        return " ".join(part.strip() for part in (self.value, *self.lines) if part.strip())


def parse_header(sql_text: str, name: str, path: str) -> Spec:
    """Return what the header of a SQL file declares.

    Args:
        sql_text: the whole file.
        name: the feature's name (the file name without `.sql`).
        path: where the text came from, for error messages.

    Raises:
        QueryError: the header is missing, incomplete or contradicts the SQL below it.
    """
    return _Reader(name, path).read(sql_text)


class _Reader:
    """One parse; knows the file for its error messages."""

    def __init__(self, name: str, path: str) -> None:
        self._name = name
        self._path = path

    def read(self, sql_text: str) -> Spec:
        header, body = _split(sql_text)
        if not header or not header[0].strip():
            raise self._error("the header is missing", "begin the file with `-- A question?`")
        if not body.strip():
            raise self._error("there is no SQL below the header")
        if not _NAME.fullmatch(self._name):
            raise self._error(f"the file name {self._name!r} is not a lower-case identifier")

        first_paragraph = _until_blank(header)
        fields = self._fields(header[len(first_paragraph) :])
        kind = self._kind(fields)
        params = self._params(fields, kind)
        if kind == "analysis":
            self._check_used(params, body)
        return Spec(
            name=self._name,
            path=self._path,
            question=first_paragraph[0].strip(),
            description=" ".join(line.strip() for line in first_paragraph[1:]),
            kind=kind,
            scope=self._scope(fields, kind),
            requires=self._requires(fields),
            reduces=self._reduces(fields),
            params=params,
            columns=self._columns(fields, kind),
            keep=self._keep(fields),
            invariants=self._texts(fields, "Invariant"),
            notes=self._texts(fields, "Note"),
            sql=sql_text,
        )

    def _error(self, reason: str, hint: str | None = None) -> QueryError:
        return QueryError(f"{self._path}: {reason}", hint=hint)

    def _fields(self, lines: Iterable[str]) -> list[_Field]:
        fields: list[_Field] = []
        for line in lines:
            if not line.strip():
                continue
            if line[0].isspace():
                if not fields:
                    raise self._error(f"{line.strip()!r} belongs to no field")
                fields[-1].lines.append(line)
                continue
            match = _FIELD.fullmatch(line.rstrip())
            if match is None:
                raise self._error(
                    f"{line.strip()!r} is no header field",
                    "fields: "
                    + ", ".join(_FIELDS)
                    + "; other lines belong above the first `--` line",
                )
            fields.append(self._field(match, fields))
        return fields

    def _field(self, match: re.Match[str], before: list[_Field]) -> _Field:
        name = match["name"]
        if name not in _FIELDS:
            close = get_close_matches(name.capitalize(), _FIELDS, n=1)
            raise self._error(
                f"unknown header field {name!r}",
                f"did you mean {close[0]}?" if close else "fields: " + ", ".join(_FIELDS),
            )
        if name not in _REPEATABLE and any(known.name == name for known in before):
            raise self._error(f"the header field {name} is given twice")
        return _Field(name, match["value"])

    def _one(self, fields: list[_Field], name: str) -> _Field | None:
        return next((field for field in fields if field.name == name), None)

    def _texts(self, fields: list[_Field], name: str) -> tuple[str, ...]:
        texts = tuple(field.text for field in fields if field.name == name)
        if not all(texts):
            raise self._error(f"the header field {name} is empty")
        return texts

    def _kind(self, fields: list[_Field]) -> Kind:
        found = self._one(fields, "Kind")
        if found is None:
            raise self._error("the header field Kind is missing", _KINDS)
        for kind in get_args(Kind):
            if found.text == kind:
                return kind  # type: ignore[no-any-return]
        raise self._error(f"unknown Kind {found.text!r}", _KINDS)

    def _scope(self, fields: list[_Field], kind: Kind) -> Scope | None:
        found = self._one(fields, "Scope")
        if found is None:
            if kind == "analysis":
                raise self._error("the header field Scope is missing", _SCOPES)
            return None
        if kind != "analysis":
            raise self._error(f"a {kind} has no Scope")
        for scope in get_args(Scope):
            if found.text == scope:
                return scope  # type: ignore[no-any-return]
        raise self._error(f"unknown Scope {found.text!r}", _SCOPES)

    def _requires(self, fields: list[_Field]) -> tuple[str, ...]:
        found = self._one(fields, "Requires")
        if found is None:
            return ()
        names = tuple(part.strip() for part in found.text.split(","))
        for name in names:
            if not _NAME.fullmatch(name):
                raise self._error(f"Requires: {name!r} is no name", "names are separated by commas")
        return names

    def _reduces(self, fields: list[_Field]) -> tuple[Reduced, ...]:
        found = self._one(fields, "Reduces")
        if found is None:
            return ()
        if (scope := self._one(fields, "Scope")) is None or scope.text != "run":
            raise self._error("Reduces is for an analysis of scope run")
        reduced = []
        for part in found.text.split(","):
            match = _REDUCED.fullmatch(part.strip())
            if match is None:
                raise self._error(
                    f"Reduces: cannot read {part.strip()!r}",
                    "write `analysis` or `analysis name=1`",
                )
            pairs = (given.partition("=") for given in match["params"].split())
            params = tuple((name, value) for name, _, value in pairs)
            reduced.append(Reduced(match["name"], params))
        self._check_unique("Reduces", [one.analysis for one in reduced])
        return tuple(reduced)

    def _params(self, fields: list[_Field], kind: Kind) -> tuple[Param, ...]:
        params = []
        for entry in self._entries(self._one(fields, "Params")):
            match = _PARAM.fullmatch(entry)
            if match is None:
                raise self._error(
                    f"Params: cannot read {entry!r}", "write `name  TYPE = default  meaning`"
                )
            params.append(self._param(match, kind))
        self._check_unique("Params", [param.name for param in params])
        return tuple(params)

    def _param(self, match: re.Match[str], kind: Kind) -> Param:
        default = match["default"]
        if default is not None and default.startswith("'"):
            default = default[1:-1].replace("''", "'")
        choices = tuple(
            part.strip() for part in (match["choices"] or "").split("|") if part.strip()
        )
        param = Param(match["name"], match["type"], default, match["meaning"].strip(), choices)
        if kind != "analysis":
            # A macro's arguments may be of any type, expressions and names included.
            return param
        if param.type not in PARAM_TYPES:
            raise self._error(
                f"Params: {param.name} has the type {param.type}",
                "a parameter is one of: " + ", ".join(PARAM_TYPES),
            )
        if choices and param.type != "VARCHAR":
            raise self._error(f"Params: {param.name} has choices but is not VARCHAR")
        if default is not None:
            try:
                default_of(param)
            except UsageError as error:
                raise self._error(f"Params: default of {error.message}", error.hint) from None
        return param

    def _columns(self, fields: list[_Field], kind: Kind) -> tuple[ColumnSpec, ...]:
        columns = []
        for entry in self._entries(self._one(fields, "Columns")):
            match = _COLUMN.fullmatch(entry)
            if match is None:
                raise self._error(f"Columns: cannot read {entry!r}", "write `name  TYPE  meaning`")
            columns.append(ColumnSpec(match["name"], match["type"], match["meaning"].strip()))
        if not columns and kind != "macro":
            raise self._error("the header field Columns is missing or empty")
        self._check_unique("Columns", [column.name for column in columns])
        return tuple(columns)

    def _keep(self, fields: list[_Field]) -> tuple[str, ...]:
        found = self._one(fields, "Keep")
        names = () if found is None else tuple(part.strip() for part in found.text.split(","))
        declared = {entry.split()[0] for entry in self._entries(self._one(fields, "Columns"))}
        for name in names:
            if name not in declared:
                raise self._error(f"Keep: {name!r} is none of the columns")
        return names

    def _entries(self, found: _Field | None) -> list[str]:
        """Join lines into entries; a line that is indented deeper continues the entry above."""
        if found is None:
            return []
        if found.value.strip():
            raise self._error(f"{found.name}: begin its entries on the next line, indented")
        entries: list[str] = []
        base = min((_indent(line) for line in found.lines), default=0)
        for line in found.lines:
            if _indent(line) > base and entries:
                entries[-1] += " " + line.strip()
            else:
                entries.append(line.strip())
        return entries

    def _check_unique(self, field_name: str, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise self._error(f"{field_name}: {name} is declared twice")

    def _check_used(self, params: tuple[Param, ...], body: str) -> None:
        used = {match["param"] for match in SQL_TOKEN.finditer(body) if match["param"]}
        declared = {param.name for param in params}
        for name in sorted(used - declared):
            raise self._error(f"${name} is used but not declared in Params")
        for name in sorted(declared - used):
            raise self._error(f"the parameter {name} is declared but ${name} is not used")


def _split(sql_text: str) -> tuple[list[str], str]:
    """Split a file into its header lines, without the comment marks, and the SQL below."""
    lines = sql_text.removeprefix("\ufeff").splitlines()
    header = []
    for line in lines:
        if not line.startswith("--"):
            break
        header.append(line[2:].removeprefix(" ").rstrip())
    return header, "\n".join(lines[len(header) :])


def _until_blank(lines: list[str]) -> list[str]:
    paragraph = []
    for line in lines:
        if not line.strip():
            break
        paragraph.append(line)
    return paragraph


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
