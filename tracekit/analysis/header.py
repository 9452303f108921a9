"""Parses the header of an SQL file.

The header consists of the `--` lines at the top of the file:

    -- A noun phrase that names the rows.
    -- Their purpose and how they are computed: a few lines, or none.
    --
    -- Kind:     analysis | view | table | function
                 | advice (an analysis whose columns and invariants are :data:`ADVICE`)
    -- Created:  on demand                            (tables; default: with the store)
    -- Scope:    trace | run | runs                   (analyses)
    -- Family:   analysis per word                    (this is `analysis --per word`)
    -- Access:   private                              (a helper; may change with any version)
    -- Input:    relation, with WHERE or GROUP BY     (if empty, the result is empty)
    -- Params:
    --   name  BIGINT = 0  meaning, unit              (no `= …`: required; `= NULL`: may be unset)
    --   sort  VARCHAR{total|mean} = total  meaning   (one of these values)
    -- Needs: name | other                            (one of these parameters must be given)
    -- Columns:
    --   name  INTEGER  meaning
    --         a line with deeper indentation continues the previous line
    --   event_id   BIGINT -> event  meaning          (joins the column of the same name there)
    --   launch_id  BIGINT -> event.event_id  meaning (joins the column event_id there)
    --   tid        BIGINT -> thread(pid, tid)  meaning  (joins it together with its column pid)
    --   rank INTEGER, device VARCHAR           (described in :data:`COLUMN_MEANINGS`)
    -- Keep:      columns that narrow screens omit last
    -- View:                                       (charts, reports, …: `VIEWS`)
    --   chart  form=bars title="Time by phase" y=phase x=span_ns axis="time" tip=phase,span_ns
    -- Invariant: condition over the columns, true for every row (repeatable)
    -- Empty: reason for a result without rows
    -- Empty: relation: the reason if this relation is empty (repeatable; the first match is shown)
    -- Note: free text (repeatable)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar, get_args

from msgspec import Struct, field

from tracekit.analysis.glossary import COLUMN_MEANINGS
from tracekit.analysis.params import PARAM_TYPES, default_of
from tracekit.analysis.spec import ColumnSpec, Key, Kind, Param, Scope, Spec
from tracekit.errors import QueryError, UsageError, did_you_mean

_HEADER = re.compile(r"(?:--[^\n]*(?:\n|\Z))*")


class Line(NamedTuple):
    """A line of the header without comment marks, and its line number, from 1."""

    number: int
    text: str


class HeaderField(Struct):
    """A field as written: the text after the colon and the indented lines below it."""

    name: str
    value: str
    number: int
    lines: list[Line] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The field as one line."""
        parts = (self.value, *(line.text for line in self.lines))
        return " ".join(part.strip() for part in parts if part.strip())

    @property
    def entries(self) -> list[tuple[int, str]]:
        """The entries below the field with their line numbers.

        A line with deeper indentation than the first continues the previous entry.
        """
        entries: list[tuple[int, str]] = []
        stripped = [(line.number, line.text, line.text.lstrip()) for line in self.lines]
        base = min((len(text) - len(rest) for _, text, rest in stripped), default=0)
        for number, text, rest in stripped:
            if len(text) - len(rest) > base and entries:
                first, before = entries[-1]
                entries[-1] = (first, f"{before} {rest.rstrip()}")
            else:
                entries.append((number, rest.rstrip()))
        return entries


def split_header(sql_text: str) -> tuple[list[Line], str]:
    """Split a file into header lines without comment marks, and the SQL below."""
    text = sql_text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    match = _HEADER.match(text)
    end = match.end() if match else 0
    header = [
        Line(number, line[2:].removeprefix(" ").rstrip())
        for number, line in enumerate(text[:end].removesuffix("\n").split("\n"), start=1)
        if end
    ]
    return header, text[end:]


def until_blank(lines: Sequence[Line]) -> list[Line]:
    """Return the lines before the first empty line."""
    paragraph = []
    for line in lines:
        if not line.text.strip():
            break
        paragraph.append(line)
    return paragraph


TYPE = r"[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?:\[\])*"
"""Pattern of a type in headers."""

_NAMED = (
    rf"(?P<name>[a-z][a-z0-9_]*)\s+(?P<type>{TYPE})"
    r"(?:\s+->\s*(?P<table>[a-z][a-z0-9_]*)"
    r"(?:\.(?P<other>[a-z][a-z0-9_]*)|\((?P<several>[a-z0-9_, ]+)\))?)?"
)
_COLUMN = re.compile(rf"{_NAMED}\s+(?P<meaning>(?!->|,)\S.*)")
_BARE_COLUMN = re.compile(rf"{_NAMED}(?:,\s*|\Z)")


def key_of(match: re.Match[str]) -> Key | None:
    """Return the join key in a match of a column, or None."""
    if match["table"] is None:
        return None
    if match["several"] is not None:
        names = [name.strip() for name in match["several"].split(",")]
        return Key(match["table"], tuple((name, name) for name in names))
    return Key(match["table"], ((match["name"], match["other"] or match["name"]),))


__all__ = ["ColumnSpec", "HeaderProblem", "Key", "Param", "Spec", "parse_header"]

_FIELDS = (
    *("Kind", "Created", "Scope", "Family", "Access", "Input", "Params", "Needs"),
    # Accepted and ignored: earlier headers listed the relations that the SQL reads.
    "Requires",
    *("Columns", "Keep", "View", "Invariant", "Empty", "Note"),
)
_REPEATABLE = ("Invariant", "Empty", "Note")

VIEWS: Mapping[str, tuple[str, ...]] = {
    "breakdown": (
        *("after", "title", "note", "label", "bar", "figures", "titles", "colour", "most"),
        *("one", "many", "totals"),
    ),
    "chart": (
        *("name", "form", "title", "x", "axis", "x_of", "x_scale", "y", "y_axis", "y_scale"),
        *("order", "parts", "colour", "largest", "tip"),
    ),
    "report": ("section", "title"),
    "page": ("rows", "lines", "largest", "ask"),
    "browse": ("key", "menu", "title", "columns", "first", "ask"),
}
"""Kinds of views of an analysis with their settings. List values are separated by commas.

``breakdown``: a section of `tracekit breakdown`, after the section of the analysis `after`. `title`
and `note` are its heading. Each row has a `label`, a `bar` (a column of shares), and `figures`, in
the `colour` of its kind. At most `most` rows are shown. A line below counts the others, with the
noun `one` or `many`. If `totals` names an analysis with sums over all devices, its rows are shown
instead. Otherwise, rows of several devices begin with the device.

``chart``: a chart in reports and notebooks. `name` is its name; the default is the name of the
analysis. `form` is bars, points, or lines. `x` and `y` are columns; `y` may be ``where``, the
device. `axis` and `y_axis` are the axis labels. `x_scale` and `y_scale` may be log. `x_of` is a
column whose values must fit on the x axis. `order=rows` keeps the order of rows. `parts` are
columns stacked in a bar. `colour` is a column or a color. If there are too many rows to draw, those
with the largest values in column `largest` are drawn. `tip` has the columns of the tooltip.

``report``: a section of a report by name; a new section has a `title`.

``page``: the maximum number of `rows` on a page: complete lines if `lines` has the columns that
identify a line, otherwise the `largest` rows by a column. `ask` has the query parameters.

``browse``: a table of `tracekit browse` with its `key`, name in the `menu`, `title`, `columns`,
query parameters (`ask`), and the value that is sorted `first`.
"""

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "breakdown": (),
    "chart": ("form", "title", "y", "axis", "tip"),
    "report": ("section",),
    "page": (),
    "browse": ("key", "menu", "title", "columns"),
}
"""Required settings of each kind of view."""

_FORMS = {"bars": ("x",), "points": ("x", "y_axis"), "lines": ("x", "y_axis")}
"""Forms of charts with their required settings, except for stacked bars."""

_VIEW = "\n-- View:\n"
_INDENTED = re.compile(r"(?:--   +\S.*\n)+")
_VIEW_ENTRY = re.compile(r"^--   (?P<way>\w+) +(?P<settings>.*(?:\n--     +.*)*)", re.MULTILINE)
_SETTING = re.compile(r'(?P<key>[a-z_]+)=(?:"(?P<text>[^"]*)"|(?P<word>[^\s"]+))(?:\s+|$)')

View = Mapping[str, str]
"""Settings of a view."""


def views_of(sql_text: str) -> dict[str, View]:
    """Return the views in the header of a file, without parsing all of it."""
    begin = sql_text.find(_VIEW)
    if begin < 0:
        return {}
    block = _INDENTED.match(sql_text, begin + len(_VIEW))
    return {
        entry["way"]: _settings(re.sub(r"\n-- +", " ", entry["settings"]))
        for entry in _VIEW_ENTRY.finditer(block[0] if block else "")
    }


def parameters(text: str) -> dict[str, object]:
    """Return the parameters in a setting `ask`, such as ``limit:0,kind:all``."""
    pairs = (one.partition(":") for one in text.split(",") if one)
    return {name: int(value) if value.isdigit() else value for name, _, value in pairs}


def _settings(text: str) -> View:
    return {
        match["key"]: match["word"] if match["text"] is None else match["text"]
        for match in _SETTING.finditer(text)
    }


ADVICE = """
Columns:
  what      VARCHAR  what was observed
  place     VARCHAR  where it was observed
  change    VARCHAR  changes for `tracekit predict`, separated by "; "; NULL if none
  cost_ns   BIGINT   time spent on it, ns; NULL if unknown
  remedy    VARCHAR  suggested change
  evidence  VARCHAR  command that shows the evidence
Invariant: cost_ns IS NULL OR cost_ns > 0
"""
"""Declarations that are part of the header of every advice rule."""

_FIELD = re.compile(r"(?P<name>[A-Za-z]+):[ \t]*(?P<value>.*)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PARAM = re.compile(
    rf"(?P<name>[a-z][a-z0-9_]*)\s+(?P<type>{TYPE})"
    r"(?:\{(?P<choices>[^{}]+)\})?"
    r"(?:\s*=\s*(?P<default>'(?:[^']|'')*'|\S+))?"
    r"\s+(?P<meaning>[^=\s].*)"
)
# Comments, string literals, and quoted names are tokens, so that `$` in them is not a parameter.
SQL_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<param>[A-Za-z_]\w*)", re.DOTALL
)

_COLUMN_FORM = "write `name  TYPE  meaning`, or `name  TYPE -> table.column  meaning`"

_OF_COLUMNS = (
    *("x", "y", "x_of", "parts", "tip", "largest", "label", "bar", "figures", "lines", "columns"),
)
"""Settings of views whose values are columns."""

T = TypeVar("T", bound=str)


class HeaderProblem(Struct, frozen=True):
    """An error in a header: the line number, from 1, a message, and a hint."""

    line: int
    reason: str
    hint: str | None = None


def parse_header(sql_text: str, name: str, path: str, subject: str = "") -> Spec:
    """Return the parsed header of an SQL file."""
    reader = _Reader(sql_text, name)
    spec = reader.read(path, subject)
    if reader.problems:
        first = min(reader.problems, key=lambda problem: problem.line)
        raise QueryError(f"{path}: line {first.line}: {first.reason}", hint=first.hint)
    return spec


class _Reader:
    """Parses one header."""

    def __init__(self, sql_text: str, name: str) -> None:
        self.problems: list[HeaderProblem] = []
        self._sql = sql_text
        self._name = name
        self._header, self._body = split_header(sql_text)
        self._fields: list[HeaderField] = []

    def read(self, path: str, subject: str) -> Spec:
        first_paragraph = until_blank(self._header)
        if not first_paragraph:
            self._wrong(
                1, "the header is missing", "start with the rows that it returns: `-- Kernels.`"
            )
        if not self._body.strip():
            self._wrong(len(self._header) + 1, "no SQL after the header")
        if not _NAME.fullmatch(self._name):
            self._wrong(1, f"the file name {self._name!r} is not a lower-case identifier")
        if first_paragraph:
            self._fields = self._read_fields(self._header[len(first_paragraph) :])
            entry = self._one("Kind")
            if entry is not None and entry.text == "advice":
                entry.value = "analysis"
                lines = [Line(entry.number, text) for text in ADVICE.splitlines()]
                self._fields += self._read_fields(lines)
        kind = self._kind() if first_paragraph else None
        params = self._params(kind)
        if kind == "analysis":
            self._check_used(params)
        self._check_views()
        return Spec(
            name=self._name,
            path=path,
            question=first_paragraph[0].text.strip() if first_paragraph else "",
            description=" ".join(line.text.strip() for line in first_paragraph[1:]),
            kind=kind or "view",
            scope=self._scope(kind),
            input=self._input(),
            is_on_demand=self._choice("Created", ("on demand",)) is not None,
            params=params,
            columns=self._columns(kind),
            invariants=self._texts("Invariant"),
            empty=self._empty(),
            notes=self._texts("Note"),
            sql=self._sql,
            subject=subject,
            is_private=self._choice("Access", ("private",)) == "private",
            needs=self._needs(params),
            keep=self._keep(),
        )

    def _wrong(self, line: int, reason: str, hint: str | None = None) -> None:
        self.problems.append(HeaderProblem(line, reason, hint))

    def _read_fields(self, lines: Sequence[Line]) -> list[HeaderField]:
        fields: list[HeaderField] = []
        for line in lines:
            if not line.text.strip():
                continue
            if line.text[0].isspace():
                if fields:
                    fields[-1].lines.append(line)
                else:
                    self._wrong(line.number, f"{line.text.strip()!r} belongs to no field")
                continue
            match = _FIELD.fullmatch(line.text)
            if match is None:
                self._wrong(
                    line.number,
                    f"{line.text.strip()!r} is not a header field",
                    "fields: "
                    + ", ".join(_FIELDS)
                    + "; other lines belong before the first `--` line",
                )
            else:
                result = HeaderField(match["name"], match["value"], line.number)
                self._check_field(result, fields)
                fields.append(result)
        return fields

    def _check_field(self, result: HeaderField, before: Sequence[HeaderField]) -> None:
        name = result.name
        if name not in _FIELDS:
            close = did_you_mean(name.capitalize(), _FIELDS, count=1)
            self._wrong(
                result.number,
                f"unknown header field {name!r}",
                close or "fields: " + ", ".join(_FIELDS),
            )
        elif name not in _REPEATABLE and any(known.name == name for known in before):
            self._wrong(result.number, f"the header field {name} appears twice")

    def _one(self, name: str) -> HeaderField | None:
        return next((one for one in self._fields if one.name == name), None)

    def _texts(self, name: str) -> tuple[str, ...]:
        results = [one for one in self._fields if one.name == name]
        for one in results:
            if not one.text:
                self._wrong(one.number, f"the header field {name} is empty")
        return tuple(one.text for one in results)

    def _empty(self) -> tuple[tuple[str, str], ...]:
        """Return the reasons for an empty result, each with the empty relation or ""."""
        parts = (text.partition(": ") for text in self._texts("Empty"))
        return tuple(
            (name, why) if why and _NAME.fullmatch(name) else ("", name + colon + why)
            for name, colon, why in parts
        )

    def _choice(self, name: str, choices: tuple[T, ...]) -> T | None:
        """Return the value of a field, which must be one of `choices`, or None."""
        entry = self._one(name)
        if entry is None:
            return None
        for choice in choices:
            if entry.text == choice:
                return choice
        self._wrong(entry.number, f"unknown {name} {entry.text!r}", _one_of(choices))
        return None

    def _missing(self, name: str, choices: Sequence[str]) -> None:
        if self._one(name) is None:
            self._wrong(1, f"the header field {name} is missing", _one_of(choices))

    def _kind(self) -> Kind | None:
        kinds: tuple[Kind, ...] = get_args(Kind)
        self._missing("Kind", kinds)
        return self._choice("Kind", kinds)

    def _scope(self, kind: Kind | None) -> Scope | None:
        scopes: tuple[Scope, ...] = get_args(Scope)
        entry = self._one("Scope")
        if entry is not None and kind not in (None, "analysis"):
            self._wrong(entry.number, f"a {kind} has no Scope")
            return None
        if kind == "analysis":
            self._missing("Scope", scopes)
        return self._choice("Scope", scopes)

    def _input(self) -> str:
        entry = self._one("Input")
        return "" if entry is None else entry.text

    def _params(self, kind: Kind | None) -> tuple[Param, ...]:
        params: list[Param] = []
        names: set[str] = set()
        for number, entry in self._entries("Params"):
            match = _PARAM.fullmatch(entry)
            if match is None:
                self._wrong(
                    number,
                    f"Params: cannot read {entry!r}",
                    "write `name  TYPE = default  meaning`",
                )
            else:
                param = self._param(number, match, kind)
                self._check_unique(number, "Params", param.name, names)
                params.append(param)
        return tuple(params)

    def _needs(self, params: tuple[Param, ...]) -> tuple[str, ...]:
        entry = self._one("Needs")
        if entry is None:
            return ()
        names = tuple(part.strip() for part in entry.text.split("|"))
        optional = [param.name for param in params if param.default == "NULL"]
        for name in names:
            if name not in optional:
                self._wrong(
                    entry.number, f"Needs: {name!r} is not a parameter with the default NULL"
                )
        return names

    def _param(self, number: int, match: re.Match[str], kind: Kind | None) -> Param:
        default = match["default"]
        if default is not None and default.startswith("'"):
            default = default[1:-1].replace("''", "'")
        choices = tuple(
            part.strip() for part in (match["choices"] or "").split("|") if part.strip()
        )
        param = Param(match["name"], match["type"], default, match["meaning"].strip(), choices)
        if kind != "analysis":
            # Arguments of functions may have any type, including expressions and names.
            return param
        if param.type not in PARAM_TYPES:
            self._wrong(
                number,
                f"Params: {param.name} has the type {param.type}",
                "types of parameters: " + ", ".join(PARAM_TYPES),
            )
            return param
        if choices and param.type != "VARCHAR":
            self._wrong(number, f"Params: {param.name} has choices but is not VARCHAR")
            return param
        if default is not None:
            try:
                default_of(param)
            except UsageError as error:
                self._wrong(number, f"Params: default of {error.message}", error.hint)
        return param

    def _columns(self, kind: Kind | None) -> tuple[ColumnSpec, ...]:
        columns = []
        names: set[str] = set()
        for number, match in self._declared():
            name, meaning = match["name"], match.groupdict().get("meaning")
            if meaning is None:
                meaning = COLUMN_MEANINGS.get(name, "")
                if not meaning and kind != "function" and not self._is_private:
                    self._wrong(number, f"Columns: {name} has no meaning", _COLUMN_FORM)
            columns.append(ColumnSpec(name, match["type"], meaning.strip(), key_of(match)))
            self._check_unique(number, "Columns", name, names)
        if not self._entries("Columns") and kind not in (None, "function"):
            entry = self._one("Columns")
            number = 1 if entry is None else entry.number
            self._wrong(number, "the header field Columns is missing or empty")
        return tuple(columns)

    @property
    def _is_private(self) -> bool:
        entry = self._one("Access")
        return entry is not None and entry.text == "private"

    def _declared(self) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield the columns with their line numbers.

        An entry is one column with a description, or several without, separated by commas.
        """
        for number, entry in self._entries("Columns"):
            begin = 0
            while match := _BARE_COLUMN.match(entry, begin):
                yield number, match
                begin = match.end()
                if begin == len(entry):
                    break
            else:
                if begin == 0 and (described := _COLUMN.fullmatch(entry)):
                    yield number, described
                else:
                    self._wrong(number, f"Columns: cannot read {entry!r}", _COLUMN_FORM)

    def _keep(self) -> tuple[str, ...]:
        entry = self._one("Keep")
        if entry is None:
            return ()
        names = tuple(part.strip() for part in entry.text.split(","))
        declared = {match["name"] for _, match in self._declared()}
        for name in names:
            if name not in declared:
                self._wrong(entry.number, f"Keep: {name!r} is not a column")
        return names

    def _check_views(self) -> None:
        declared = {match["name"] for _, match in self._declared()}
        known = {*declared, "where"}
        for number, entry in self._entries("View"):
            way, _, text = entry.partition(" ")
            if way not in VIEWS:
                self._wrong(number, f"View: unknown way {way!r}", _one_of(tuple(VIEWS)))
                continue
            if rest := _SETTING.sub("", text.strip()).strip():
                self._wrong(
                    number, f"View: cannot read {rest!r}", 'write `key=word` or `key="text"`'
                )
            settings = _settings(text)
            needed = _NEEDED[way]
            if way == "chart" and "form" in settings:
                if settings["form"] not in _FORMS:
                    self._wrong(
                        number, f"View: unknown form {settings['form']!r}", _one_of([*_FORMS])
                    )
                is_stacked = settings["form"] == "bars" and "parts" in settings
                needed += ("x_of",) if is_stacked else _FORMS.get(settings["form"], ())
            for key in needed:
                if key not in settings:
                    self._wrong(number, f"View: {way} has no {key}")
            for key, value in settings.items():
                if key not in VIEWS[way]:
                    self._wrong(number, f"View: unknown setting {key!r}", _one_of(VIEWS[way]))
                names = value.split(",") if key in _OF_COLUMNS else ()
                if (way, key) != ("page", "rows") and (wrong := [*{*names} - known]):
                    self._wrong(number, f"View: {min(wrong)!r} is not a column")

    def _entries(self, name: str) -> list[tuple[int, str]]:
        entry = self._one(name)
        if entry is None:
            return []
        if entry.value.strip():
            self._wrong(entry.number, f"{entry.name}: put its entries on the next lines, indented")
        return entry.entries

    def _check_unique(self, number: int, field_name: str, name: str, before: set[str]) -> None:
        """Reject a repeated name; otherwise, add it to `before`."""
        if name in before:
            self._wrong(number, f"{field_name}: {name} is declared twice")
        before.add(name)

    def _check_used(self, params: tuple[Param, ...]) -> None:
        used: dict[str, int] = {}
        # Most files have no parameters, so their SQL need not be split into tokens.
        for match in SQL_TOKEN.finditer(self._body) if "$" in self._body else ():
            if match["param"]:
                line = len(self._header) + 1 + self._body.count("\n", 0, match.start())
                used.setdefault(match["param"], line)
        declared = {param.name for param in params}
        for name in sorted(used.keys() - declared):
            self._wrong(used[name], f"${name} is used but not declared in Params")
        entry = self._one("Params")
        line = entry.number if entry else 1
        for name in sorted(declared - used.keys()):
            self._wrong(line, f"the parameter {name} is declared but ${name} is not used")


def _one_of(choices: Sequence[str]) -> str:
    return "one of: " + ", ".join(choices)
