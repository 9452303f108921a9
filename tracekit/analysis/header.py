"""Read the header of a SQL file.

The header is the run of `--` lines at the top of the file:

    -- A noun phrase that names the rows.
    -- Why they are wanted and how they are found: a few lines, or none.
    --
    -- Kind:     analysis | view | table | function
                 | advice (an analysis whose columns and invariants are :data:`ADVICE`)
    -- Made:     when asked for                       (tables that few questions read)
    -- Scope:    trace | run | runs                   (analyses)
    -- Family:   analysis per word                    (this one is that one with `--per word`)
    -- Access:   private                              (helps others; may change with any version)
    -- Input:    relation, with WHERE or GROUP BY     (without a row of it, this has none either)
    -- Params:
    --   name  BIGINT = 0  meaning, unit              (no `= …`: required; `= NULL`: may be unset)
    --   sort  VARCHAR{total|mean} = total  meaning   (one of these values)
    -- Needs: name | other                            (one of these parameters must be given)
    -- Columns:
    --   name  INTEGER  meaning
    --         a line that is indented further continues the one above
    --   event_id   BIGINT -> event  meaning          (joins the column of the same name there)
    --   launch_id  BIGINT -> event.event_id  meaning (joins the column event_id there)
    --   tid        BIGINT -> thread(pid, tid)  meaning  (joins it together with its column pid)
    --   rank INTEGER, device VARCHAR           (described in :data:`COLUMN_MEANINGS`)
    -- Keep:      columns, the last to go where a screen is too narrow for all
    -- View:                                       (ways to show it besides a table: `VIEWS`)
    --   chart  form=bars title="Time by phase" y=phase x=span_ns axis="time" tip=phase,span_ns
    -- Invariant: condition over the columns, true for every row (repeatable)
    -- Empty: why it has no row, where it has none
    -- Empty: relation: the same, where that has none (repeatable; the first that holds is said)
    -- Note: free text (repeatable)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, get_args

from tracekit.analysis.glossary import COLUMN_MEANINGS
from tracekit.analysis.params import PARAM_TYPES, default_of
from tracekit.analysis.spec import ColumnSpec, Key, Kind, Param, Scope, Spec
from tracekit.errors import QueryError, UsageError, did_you_mean

_HEADER = re.compile(r"(?:--[^\n]*(?:\n|\Z))*")


class Line(NamedTuple):
    """A line of the header without its comment marks, and its number in the file, from 1."""

    number: int
    text: str


@dataclass
class HeaderField:
    """One field as written: the text after the colon and the indented lines below it."""

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
        """The entries below it with the numbers of their lines.

        A line that is indented deeper than the first continues the entry above.
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
    """Split a file into its header lines, without the comment marks, and the SQL below."""
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
    """Return the lines before the first empty one."""
    paragraph = []
    for line in lines:
        if not line.text.strip():
            break
        paragraph.append(line)
    return paragraph


TYPE = r"[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?:\[\])*"
"""A type, as headers write it."""

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
    *("Kind", "Made", "Scope", "Family", "Access", "Input", "Params", "Needs"),
    # Accepted and ignored: earlier headers listed there what the SQL reads.
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
"""How an analysis may be shown, and the settings of each way; lists are separated by commas.

``breakdown``: a section of `tracekit breakdown`, behind that of the analysis `after`. `title` and
`note` are its heading; a row has a `label`, a `bar` (a column of shares) and `figures`, in the
`colour` of its kind; `most` rows are shown, of which one more is `one`, several are `many`.
`totals` is the analysis that sums its rows over all devices and is shown in its place; else rows of
several devices begin with the device.

``chart``: a picture by its `name`, else that of the analysis, in reports and notebooks. `form` is
bars, points or lines. `x` and `y` are columns, of which `y` may be ``where``, the device; `axis`
and `y_axis` are what their axes say, `x_scale` and `y_scale` may be log; `x_of` is the column that
the axis of bars has to hold. `order=rows` keeps the order of the rows, `parts` are columns that a
bar consists of, `colour` is a column or a colour, `largest` the column whose largest values are
drawn where there are many, `tip` are the columns shown of what is pointed at.

``report``: a section of a report, by its name; one that there is not yet has a `title`.

``page``: how many `rows` a page has room for; of `lines` (the columns that tell them apart) it has
whole ones, of others the `largest` by a column. `ask` are parameters that a page asks with.

``browse``: a table of `tracekit browse` under a `key`, with its name in the `menu`, its `title`,
its `columns`, its parameters (`ask`), and the value `first` in the order of its rows.
"""

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "breakdown": (),
    "chart": ("form", "title", "y", "axis", "tip"),
    "report": ("section",),
    "page": (),
    "browse": ("key", "menu", "title", "columns"),
}
"""The settings that a way to show an analysis needs."""

_FORMS = {"bars": ("x",), "points": ("x", "y_axis"), "lines": ("x", "y_axis")}
"""The forms of charts, and the settings that each needs; bars of parts need others."""

_VIEW = "\n-- View:\n"
_INDENTED = re.compile(r"(?:--   +\S.*\n)+")
_VIEW_ENTRY = re.compile(r"^--   (?P<way>\w+) +(?P<settings>.*(?:\n--     +.*)*)", re.MULTILINE)
_SETTING = re.compile(r'(?P<key>[a-z_]+)=(?:"(?P<text>[^"]*)"|(?P<word>[^\s"]+))(?:\s+|$)')

View = Mapping[str, str]
"""The settings of one way to show an analysis."""


def views_of(sql_text: str) -> dict[str, View]:
    """Return the ways in which a file's header says to show it, without reading all of it."""
    begin = sql_text.find(_VIEW)
    if begin < 0:
        return {}
    block = _INDENTED.match(sql_text, begin + len(_VIEW))
    return {
        entry["way"]: _settings(re.sub(r"\n-- +", " ", entry["settings"]))
        for entry in _VIEW_ENTRY.finditer(block[0] if block else "")
    }


def parameters(text: str) -> dict[str, object]:
    """Return the parameters that a setting `ask` gives: ``limit:0,kind:all``."""
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
  change    VARCHAR  changes for `tracekit predict`, separated by "; "; NULL if there is none
  cost_ns   BIGINT   time spent on it, ns; NULL if unknown
  remedy    VARCHAR  suggested change
  evidence  VARCHAR  command that shows the evidence
Invariant: cost_ns IS NULL OR cost_ns > 0
"""
"""What the header of every rule declares besides its own fields."""

_FIELD = re.compile(r"(?P<name>[A-Za-z]+):[ \t]*(?P<value>.*)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PARAM = re.compile(
    rf"(?P<name>[a-z][a-z0-9_]*)\s+(?P<type>{TYPE})"
    r"(?:\{(?P<choices>[^{}]+)\})?"
    r"(?:\s*=\s*(?P<default>'(?:[^']|'')*'|\S+))?"
    r"\s+(?P<meaning>[^=\s].*)"
)
# Comments, texts and quoted names are skipped as wholes, so that a `$` inside them is no parameter.
SQL_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<param>[A-Za-z_]\w*)", re.DOTALL
)

_COLUMN_FORM = "write `name  TYPE  meaning`, or `name  TYPE -> table.column  meaning`"

_OF_COLUMNS = (
    *("x", "y", "x_of", "parts", "tip", "largest", "label", "bar", "figures", "lines", "columns"),
)
"""The settings of views that are columns."""

T = TypeVar("T", bound=str)


@dataclass(frozen=True, slots=True)
class HeaderProblem:
    """What is wrong with a header: the line of the file, from 1, the sentence and a hint."""

    line: int
    reason: str
    hint: str | None = None


def parse_header(sql_text: str, name: str, path: str, subject: str = "") -> Spec:
    """Return what the header of a SQL file declares.

    Raises:
        QueryError: the header is missing, incomplete or contradicts the SQL below it.
    """
    reader = _Reader(sql_text, name)
    spec = reader.read(path, subject)
    if reader.problems:
        first = min(reader.problems, key=lambda problem: problem.line)
        raise QueryError(f"{path}: line {first.line}: {first.reason}", hint=first.hint)
    return spec


class _Reader:
    """One reading of a header."""

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
            found = self._one("Kind")
            if found is not None and found.text == "advice":
                found.value = "analysis"
                lines = [Line(found.number, text) for text in ADVICE.splitlines()]
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
            is_on_demand=self._choice("Made", ("when asked for",)) is not None,
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
                found = HeaderField(match["name"], match["value"], line.number)
                self._check_field(found, fields)
                fields.append(found)
        return fields

    def _check_field(self, found: HeaderField, before: Sequence[HeaderField]) -> None:
        name = found.name
        if name not in _FIELDS:
            close = did_you_mean(name.capitalize(), _FIELDS, count=1)
            self._wrong(
                found.number,
                f"unknown header field {name!r}",
                close or "fields: " + ", ".join(_FIELDS),
            )
        elif name not in _REPEATABLE and any(known.name == name for known in before):
            self._wrong(found.number, f"the header field {name} appears twice")

    def _one(self, name: str) -> HeaderField | None:
        return next((found for found in self._fields if found.name == name), None)

    def _texts(self, name: str) -> tuple[str, ...]:
        found = [one for one in self._fields if one.name == name]
        for one in found:
            if not one.text:
                self._wrong(one.number, f"the header field {name} is empty")
        return tuple(one.text for one in found)

    def _empty(self) -> tuple[tuple[str, str], ...]:
        """Return reasons, each behind the relation that has to be empty for it, or behind none."""
        parts = (text.partition(": ") for text in self._texts("Empty"))
        return tuple(
            (name, why) if why and _NAME.fullmatch(name) else ("", name + colon + why)
            for name, colon, why in parts
        )

    def _choice(self, name: str, choices: tuple[T, ...]) -> T | None:
        """Return what a field says, which is one of these words, or None."""
        found = self._one(name)
        if found is None:
            return None
        for choice in choices:
            if found.text == choice:
                return choice
        self._wrong(found.number, f"unknown {name} {found.text!r}", _one_of(choices))
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
        found = self._one("Scope")
        if found is not None and kind not in (None, "analysis"):
            self._wrong(found.number, f"a {kind} has no Scope")
            return None
        if kind == "analysis":
            self._missing("Scope", scopes)
        return self._choice("Scope", scopes)

    def _input(self) -> str:
        found = self._one("Input")
        return "" if found is None else found.text

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
        found = self._one("Needs")
        if found is None:
            return ()
        names = tuple(part.strip() for part in found.text.split("|"))
        optional = [param.name for param in params if param.default == "NULL"]
        for name in names:
            if name not in optional:
                self._wrong(
                    found.number, f"Needs: {name!r} is not a parameter with the default NULL"
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
            # A function's arguments may be of any type, expressions and names included.
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
            found = self._one("Columns")
            number = 1 if found is None else found.number
            self._wrong(number, "the header field Columns is missing or empty")
        return tuple(columns)

    @property
    def _is_private(self) -> bool:
        found = self._one("Access")
        return found is not None and found.text == "private"

    def _declared(self) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield the columns with the numbers of their lines.

        An entry is one column with its meaning, or any number without, separated by commas.
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
        found = self._one("Keep")
        if found is None:
            return ()
        names = tuple(part.strip() for part in found.text.split(","))
        declared = {match["name"] for _, match in self._declared()}
        for name in names:
            if name not in declared:
                self._wrong(found.number, f"Keep: {name!r} is not a column")
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
        found = self._one(name)
        if found is None:
            return []
        if found.value.strip():
            self._wrong(found.number, f"{found.name}: put its entries on the next lines, indented")
        return found.entries

    def _check_unique(self, number: int, field_name: str, name: str, before: set[str]) -> None:
        """Look whether a name has been there before, and remember it."""
        if name in before:
            self._wrong(number, f"{field_name}: {name} is declared twice")
        before.add(name)

    def _check_used(self, params: tuple[Param, ...]) -> None:
        used: dict[str, int] = {}
        # Most files have no parameter: the tokens of their SQL need not be looked at.
        for match in SQL_TOKEN.finditer(self._body) if "$" in self._body else ():
            if match["param"]:
                line = len(self._header) + 1 + self._body.count("\n", 0, match.start())
                used.setdefault(match["param"], line)
        declared = {param.name for param in params}
        for name in sorted(used.keys() - declared):
            self._wrong(used[name], f"${name} is used but not declared in Params")
        found = self._one("Params")
        line = found.number if found else 1
        for name in sorted(declared - used.keys()):
            self._wrong(line, f"the parameter {name} is declared but ${name} is not used")


def _one_of(choices: Sequence[str]) -> str:
    return "one of: " + ", ".join(choices)
