"""Rules that classify device work, ranges, and modules by name.

The rules are ordered TOML tables in ``queries/rules``. The first match wins, and the user's rules
precede the built-in ones. Rules are stored as tables. They are applied as one CASE expression with
constant patterns, each of which DuckDB compiles once. A join of names and rules would compile a
pattern for each pair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tracekit.analysis.catalog import QUERIES
from tracekit.analysis.names.pattern_words import may_match, ways_to_match
from tracekit.database.connections import SCRATCH, SESSION
from tracekit.errors import UsageError
from tracekit.small_files import MAX_TOML_BYTES, parse_toml, read_small
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

MAX_RULES = 1_000
"""Maximum number of rules of a kind, to limit the run time: every rule is tried on every name."""

KINDS = ("compute", "comm", "memcpy")
PHASES = (
    *("forward", "backward", "recompute", "optimizer", "evaluation", "generation", "data"),
    *("reward", "weight_sync"),
    *("prefill", "decode", "mixed", "verify"),
)
ROLE_SUBJECTS = ("part", "leaf", "path", "op", "class", "attention", "section", "landmark")
"""The subjects of rules for roles."""

ROLE_CALL = "role_rule_of_"
"""Prefix of the macros that apply rules for roles."""

CLASS_MACROS, ROLE_MACROS = "class_macros", "role_macros"
"""Steps that create session macros for the user's classes and for the role rules."""

CLASSIFIED_WORK = "classified_work"
CLASSIFIED_RANGE = "classified_range"
"""Tables in database ``scratch`` that list the names in a store and the rules that match them."""

CLASS_FLAGS = (
    *("is_model_work", "has_flops", "is_gemm", "is_conv", "is_softmax", "is_fusible", "is_fused"),
    *("is_optimizer", "moves_only"),
)
"""Boolean attributes of a class."""

CLASS_TEXTS = {"collective": "none", "copy": "none", "serving_task": "other"}
"""Text attributes of a class, with their defaults."""

CLASS_CALLS = frozenset((*CLASS_FLAGS, *(f"{key}_of" for key in CLASS_TEXTS)))
"""Macros that return an attribute of a class."""

Rule = dict[str, Any]


class RuleForm(NamedTuple):
    """The keys of one kind of rule. All values are strings.

    Attributes:
        table: name in TOML, such as ``range`` in ``[[range]]``.
        columns: columns of the table in a store.
        texts: keys with any string.
        choices: keys with fixed choices.
        patterns: keys with regular expressions.
        filled: keys that must not be empty.
    """

    file_name: str
    table: str
    columns: Mapping[str, str]
    required: tuple[str, ...]
    texts: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    patterns: tuple[str, ...] = ("pattern",)
    filled: tuple[str, ...] = ()


KERNEL_RULE = RuleForm(
    file_name="kernel_class.toml",
    table="rule",
    columns=dict.fromkeys(
        ("class", "kind", "applies_to", "pattern", "category", "source"), "VARCHAR"
    ),
    required=("class", "pattern"),
    texts=("class", "pattern", "category", "source", "example", "trace"),
    choices={"applies_to": ("device", "cpu")},
    patterns=("pattern", "category"),
    filled=("class", "pattern"),
)
RANGE_RULE = RuleForm(
    file_name="ranges.toml",
    table="range",
    columns=dict.fromkeys(("applies_to", "means", "pattern", "phase", "row_name"), "VARCHAR")
    | {"is_weak": "BOOLEAN"}
    | dict.fromkeys(("layer", "label", "class"), "VARCHAR"),
    required=("applies_to", "means", "pattern"),
    texts=("pattern", "row", "label", "class", "source"),
    choices={
        "applies_to": ("range", "call", "op"),
        "means": (
            *("module", "backward", "frame", "part", "step", "recompute", "node", "derivative"),
            *("range", "span"),
        ),
        "phase": PHASES,
        "strength": ("strong", "weak"),
        "layer": ("begin", "next"),
    },
)
ROLE_RULE = RuleForm(
    file_name="roles.toml",
    table="role",
    columns=dict.fromkeys(("role", "applies_to", "pattern"), "VARCHAR") | {"is_inside": "BOOLEAN"},
    required=("role", "applies_to", "pattern"),
    texts=("role", "pattern", "source"),
    choices={"applies_to": ROLE_SUBJECTS, "inside": ("attention",)},
)

FUSION_RULE = RuleForm(
    file_name="fusions.toml",
    table="fusion",
    columns=dict.fromkeys(("name", "chain", "between", "role", "remedy"), "VARCHAR"),
    required=("name", "chain", "remedy"),
    texts=("name", "chain", "between", "role", "remedy", "source"),
    choices={},
    patterns=("chain", "between"),
    filled=("name", "chain", "remedy"),
)

_TABLES = ("rule", "range", "role", "fusion")

_MAX_SHOWN = 200


# -- Reading ---------------------------------------------------------------------------------------


@cache
def builtin_content(file_name: str) -> dict[str, Any]:
    """Return the tables of a file of ``queries/rules`` by name."""
    import tomllib

    return tomllib.loads((QUERIES / "rules" / file_name).read_text("utf-8"))


def load_kernel_rules(user_file: Path | None = None) -> list[Rule]:
    """Read the rules that classify device work, by precedence, with the kind of each class.

    A class in a user's file has kind compute unless ``[class]`` sets another one. Raise UsageError
    if the file is invalid.
    """
    classes = load_classes(user_file)
    return [
        {
            "applies_to": "device",
            "source": "",
            **rule,
            "kind": classes.get(rule["class"], {}).get("kind", "compute"),
        }
        for rule in _load(KERNEL_RULE, user_file)
    ]


def load_classes(user_file: Path | None = None) -> dict[str, dict[str, Any]]:
    """Read the attributes of each class. Raise UsageError if the file is invalid."""
    classes = dict(builtin_classes())
    if user_file is None:
        return classes
    given = _read_user_file(user_file).get("class", {})
    if not isinstance(given, dict) or not all(isinstance(facts, dict) for facts in given.values()):
        raise UsageError(f'{user_file}: [class] must be a table of class = {{ kind = "..." }}')
    if len(given) > MAX_RULES:
        raise UsageError(
            f"{user_file}: {len(given):,} classes, but at most {MAX_RULES:,} are allowed"
        )
    for name, facts in given.items():
        known = classes.get(name, {})
        _check_class(f"{user_file}: class {name}", facts, known.get("kind"))
        classes[name] = known | facts
    return classes


def load_range_rules(user_file: Path | None = None) -> list[Rule]:
    """Read the rules for ranges, calls, and ops. Raise UsageError if the file is invalid."""
    return [
        {
            **rule,
            "row_name": rule.get("row"),
            "is_weak": rule.get("strength") == "weak",
            "label": rule.get("label") or None,
        }
        for rule in _load(RANGE_RULE, user_file)
    ]


def load_role_rules(user_file: Path | None = None) -> list[Rule]:
    """Read the rules for roles in a decoder, with rules on classes last.

    Raise UsageError if the file is invalid.
    """
    of_classes = [
        {"role": facts["role"], "applies_to": "class", "pattern": f"^{re.escape(name)}$"}
        for name, facts in load_classes(user_file).items()
        if "role" in facts
    ]
    rules = [*_load(ROLE_RULE, user_file), *of_classes]
    return [{**rule, "is_inside": "inside" in rule} for rule in rules]


def load_fusion_rules(user_file: Path | None = None) -> list[Rule]:
    """Read the fusible chains of kernels. Raise UsageError if the file is invalid."""
    return [{"between": "", **rule} for rule in _load(FUSION_RULE, user_file)]


def check_rules(rules: Path) -> None:
    """Check a rules file of the user."""
    load_kernel_rules(rules)
    load_range_rules(rules)
    load_role_rules(rules)
    load_fusion_rules(rules)


def _load(form: RuleForm, user_file: Path | None) -> list[Rule]:
    rules = []
    title = "rule" if form.table == "rule" else f"{form.table} rule"
    if user_file is not None:
        for number, rule in enumerate(_read_user_file(user_file).get(form.table, []), start=1):
            where = f"{user_file}: {title} {number}"
            _check_rule(form, where, rule)
            for key in form.patterns:
                if key in rule:
                    _check_pattern(where, rule[key])
            rules.append(rule)
    for number, rule in enumerate(builtin_content(form.file_name)[form.table], start=1):
        # A test checks the built-in patterns.
        _check_rule(form, f"{form.file_name}: {title} {number}", rule)
        rules.append(rule)
    return rules


def _read_user_file(path: Path) -> dict[str, Any]:
    try:
        content = _parsed(read_small(path, MAX_TOML_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: the rules file cannot be read: {reason}") from error
    unknown = sorted(set(content) - {*_TABLES, "class"})
    if unknown or not set(content) & {*_TABLES}:
        raise UsageError(
            f"{path}: " + (f"unknown key {unknown[0]!r}" if unknown else "no rule found"),
            hint="rules are tables: [[rule]], [[range]], [[role]], [[fusion]], and [class]",
        )
    for name in _TABLES:
        rules = content.get(name, [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise UsageError(f"{path}: {name} is not a list of tables", hint=f"write [[{name}]]")
        if len(rules) > MAX_RULES:
            raise UsageError(
                f"{path}: {len(rules):,} tables [[{name}]], but at most {MAX_RULES:,} are allowed",
                hint="one pattern can match many kernels: a|b|c",
            )
    return content


# Cached, because loading each kind of rule reads the file.
_parsed: Callable[[bytes], dict[str, Any]] = lru_cache(maxsize=1)(parse_toml)


def _check_class(where: str, facts: Mapping[str, Any], known_kind: str | None) -> None:
    """Raise an error if attributes of a class in a user's file are not valid."""
    for key, value in facts.items():
        if key not in ("kind", "role", *CLASS_FLAGS, *CLASS_TEXTS):
            raise UsageError(
                f"{where} has an unknown attribute {_cut(key)!r}",
                hint="attributes are: " + ", ".join(("kind", *CLASS_FLAGS, *CLASS_TEXTS, "role")),
            )
        if key != "kind" and not isinstance(value, bool if key in CLASS_FLAGS else str):
            raise UsageError(
                f"{where}: {key} is {_cut(repr(value))}",
                hint=f"write {key} = " + ("true or false" if key in CLASS_FLAGS else '"..."'),
            )
    kind = facts.get("kind", known_kind or KINDS[0])
    if kind not in KINDS:
        raise UsageError(
            f"{where} has the kind {_cut(repr(kind))}",
            hint="expected one of " + ", ".join(KINDS),
        )
    if known_kind not in (None, kind):
        raise UsageError(
            f"{where} is of kind {known_kind}, not {kind}", hint="use another class name"
        )


def _check_rule(form: RuleForm, where: str, rule: Mapping[str, Any]) -> None:
    for key, value in rule.items():
        if key not in form.choices and key not in form.texts:
            raise UsageError(
                f"{where} has an unknown key {key!r}",
                hint="keys are: " + ", ".join(sorted((*form.choices, *form.texts))),
            )
        if not isinstance(value, str):
            raise UsageError(f"{where}: {key} is not a string")
        if key in form.choices and value not in form.choices[key]:
            raise UsageError(
                f"{where}: {key} is {value!r}", hint="one of: " + ", ".join(form.choices[key])
            )
    for key in form.required:
        if key not in rule or (key in form.filled and not rule[key]):
            raise UsageError(f"{where} has no {key}")


def _check_pattern(where: str, pattern: str) -> None:
    import duckdb

    if "\0" in pattern:
        raise UsageError(f"{where}: the pattern contains a zero byte")
    try:
        _pattern_connection().execute(f"SELECT regexp_matches('', {quote(pattern)})").fetchall()
    except (duckdb.Error, UnicodeEncodeError) as error:
        reason = _cut(str(error).splitlines()[0])
        raise UsageError(
            f"{where}: the pattern {_cut(pattern)!r} is not a regular expression: {reason}",
            hint="patterns are RE2: no look-around or back-references",
        ) from error


@cache
def _pattern_connection() -> duckdb.DuckDBPyConnection:
    """Return the shared connection for all patterns; creating one takes longer than 100 checks."""
    import duckdb

    return duckdb.connect()


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


# -- Applying --------------------------------------------------------------------------------------

# Matches patterns that are a literal prefix or a literal complete text.
_PLAIN = re.compile(r"\^((?:[\w/ :#,<>=-]|\\[^\w\s])+)(\$?)")
_ESCAPED = re.compile(r"\\([^\w\s])")
_GROUP = re.compile(r"\\(\d)")

_WORK_NAMES = """
SELECT category, name, CASE WHEN bool_or(device <> 'cpu') THEN 'device' ELSE 'cpu' END AS applies_to
FROM device_work
GROUP BY category, name
"""

HOST_EVENTS = "(SELECT * FROM record WHERE view_name = 'event' OR view_name IS NULL)"
"""The events of a trace, and of graph captures in other files."""

_RANGE_NAMES = f"""
SELECT DISTINCT
    category,
    name,
    CASE
        WHEN is_op(category) THEN 'op' WHEN is_annotation(category) THEN 'range' ELSE 'call'
    END AS applies_to
FROM {HOST_EVENTS}
WHERE is_op(category) OR is_annotation(category) OR is_python_call(category)
"""


def create_rule_tables(
    connection: duckdb.DuckDBPyConnection, user_file: Path | None = None
) -> None:
    """Create tables ``kernel_rule``, ``range_rule``, ``role_rule``, and ``fusion_rule``.

    Each table lists its rules in order of precedence.

    Also create ``class_attribute`` with the attributes of classes that the user's file defines or
    changes.
    """
    for table, form, rules in (
        ("kernel_rule", KERNEL_RULE, load_kernel_rules(user_file)),
        ("range_rule", RANGE_RULE, load_range_rules(user_file)),
        ("role_rule", ROLE_RULE, load_role_rules(user_file)),
        ("fusion_rule", FUSION_RULE, load_fusion_rules(user_file)),
    ):
        rows = [
            (rule_id, *(rule.get(name) for name in form.columns))
            for rule_id, rule in enumerate(rules, start=1)
        ]
        columns = {"rule_id": "INTEGER", **form.columns}
        connection.execute(f"CREATE OR REPLACE TABLE {table} AS {select_rows(columns, rows)}")
    builtin = builtin_classes()
    attributes = [
        (name, key, json.dumps(value))
        for name, facts in load_classes(user_file).items()
        if facts != builtin.get(name)
        for key, value in facts.items()
    ]
    columns = dict.fromkeys(("class", "attribute", "value"), "VARCHAR")
    connection.execute(
        f"CREATE OR REPLACE TABLE class_attribute AS {select_rows(columns, attributes)}"
    )


def create_class_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Create macros for classes in the session if the user's rules define classes.

    ``is_gemm(class)``, ``collective_of(class)``, … for built-in classes are in the library.
    """
    rows = connection.execute("FROM class_attribute").fetchall()
    if rows:
        classes = {name: dict(facts) for name, facts in builtin_classes().items()}
        for name, key, value in rows:
            classes.setdefault(name, {})[key] = json.loads(value)
        connection.execute(class_macros(classes, f"{SESSION}.main."))


def builtin_classes() -> dict[str, dict[str, Any]]:
    """Return the attributes of the built-in classes by name."""
    result: dict[str, dict[str, Any]] = builtin_content(KERNEL_RULE.file_name)["class"]
    return result


def class_macros(classes: Mapping[str, Mapping[str, Any]], place: str) -> str:
    """Return SQL that creates a macro per attribute; macros are cheaper to plan than a join."""

    def is_one(key: str, value: Any) -> str:
        names = [quote(name) for name, facts in classes.items() if facts.get(key) == value]
        return f"class IN ({', '.join(names)})"

    macros = [f"{flag}(class) AS {is_one(flag, True)}" for flag in CLASS_FLAGS]
    for key, default in CLASS_TEXTS.items():
        values = dict.fromkeys(facts[key] for facts in classes.values() if key in facts)
        cases = " ".join(f"WHEN {is_one(key, value)} THEN {quote(value)}" for value in values)
        macros.append(f"{key}_of(class) AS CASE {cases} ELSE {quote(default)} END")
    return ";\n".join(f"CREATE OR REPLACE MACRO {place}{macro}" for macro in macros)


def condition(pattern: str, column: str = "name") -> str:
    """Return an SQL condition that is true if the pattern matches.

    A pattern that is literal text becomes a comparison without a regular expression. A dot also
    matches a line feed, which names may contain.
    """
    plain = _PLAIN.fullmatch(pattern)
    if plain is None:
        return f"regexp_matches({column}, {quote(pattern)}, 's')"
    text = quote(_ESCAPED.sub(r"\1", plain[1]))
    return f"{column} = {text}" if plain[2] else f"starts_with({column}, {text})"


def first_match(conditions: Iterable[tuple[str, int]]) -> str:
    """Return SQL for the number of the first true condition, or NULL."""
    cases = " ".join(f"WHEN {holds} THEN {number}" for holds, number in conditions)
    return f"CASE {cases} END" if cases else "NULL::INTEGER"


_MAX_LETTERS = 300_000
"""Maximum total length of a subject's names for the search for literal words of patterns."""


def _fill_names(
    connection: duckdb.DuckDBPyConnection, table: str, names: str
) -> Callable[[str, str], bool]:
    """Fill a table with names; return a function that tells whether a pattern may match one."""
    connection.execute(f"CREATE OR REPLACE TABLE {SCRATCH}.{table} AS {names}")
    result: dict[str, list[str | None]] = {}
    for subject, name in connection.execute(
        "SELECT DISTINCT applies_to, if("
        f"sum(length(name)) OVER (PARTITION BY applies_to) <= {_MAX_LETTERS}, name, NULL) "
        f"FROM {SCRATCH}.{table}"
    ).fetchall():
        result.setdefault(subject, []).append(name)
    texts = {
        subject: None if None in some else "\n".join(map(str, some)).casefold()
        for subject, some in result.items()
    }

    def may_apply(subject: str, pattern: str) -> bool:
        if subject not in texts:
            return False
        text = texts[subject]
        return text is None or may_match(ways_to_match(pattern), text)

    return may_apply


def _by_subject(conditions: Iterable[tuple[str, str, int]]) -> str:
    """Return SQL for the first matching rule that applies to the subject of the name."""
    grouped: dict[str, list[tuple[str, int]]] = {}
    for applies_to, holds, number in conditions:
        grouped.setdefault(applies_to, []).append((holds, number))
    cases = (f"WHEN {quote(key)} THEN {first_match(some)}" for key, some in grouped.items())
    return f"CASE applies_to {' '.join(cases)} END" if grouped else "NULL::INTEGER"


def classify_work(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table ``classified_work`` from table ``kernel_rule`` and view ``device_work``."""
    # Compiling a pattern takes half a millisecond, so only patterns that may match are compiled.
    may_apply = _fill_names(connection, CLASSIFIED_WORK, _WORK_NAMES)
    rules = connection.execute(
        "SELECT rule_id, applies_to, pattern, category FROM kernel_rule ORDER BY rule_id"
    ).fetchall()
    decided = _by_subject(
        (
            applies_to,
            ("" if category is None else f"{condition(category, 'category')} AND ")
            + condition(pattern),
            rule_id,
        )
        for rule_id, applies_to, pattern, category in rules
        if may_apply(applies_to, pattern)
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE {SCRATCH}.{CLASSIFIED_WORK} AS "
        f"SELECT category, name, {decided} AS rule_id FROM {SCRATCH}.{CLASSIFIED_WORK}"
    )


def classify_ranges(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table ``classified_range`` from table ``range_rule``."""
    may_apply = _fill_names(connection, CLASSIFIED_RANGE, _RANGE_NAMES)
    rules = [
        rule
        for rule in connection.execute(
            "SELECT rule_id, applies_to, pattern, label, class FROM range_rule ORDER BY rule_id"
        ).fetchall()
        if may_apply(rule[1], rule[2])
    ]
    decided = _by_subject(
        (applies_to, condition(pattern), rule_id) for rule_id, applies_to, pattern, _, _ in rules
    )
    # Match each distinct name once. Most of the many Python calls match no rule.
    connection.execute(
        f"CREATE OR REPLACE TABLE {SCRATCH}.{CLASSIFIED_RANGE} AS WITH matched AS MATERIALIZED "
        f"(SELECT *, {decided} AS rule_id FROM {SCRATCH}.{CLASSIFIED_RANGE}) "
        "SELECT category, name, rule_id, "
        f"{_templates((rule[0], rule[3], rule[2]) for rule in rules)} AS label, "
        f"{_templates((rule[0], rule[4], rule[2]) for rule in rules)} AS module_class FROM matched "
        "WHERE applies_to <> 'call' OR rule_id IS NOT NULL"
    )


def _templates(rules: Iterable[tuple[int, str | None, str]]) -> str:
    """Return SQL that fills the templates of rules with the groups of their patterns."""
    cases = " ".join(
        f"WHEN {rule_id} THEN {_filled(template, pattern)}"
        for rule_id, template, pattern in rules
        if template and _GROUP.search(template)
    )
    return f"CASE rule_id {cases} END" if cases else "NULL::VARCHAR"


def _filled(template: str, pattern: str) -> str:
    parts = []
    for position, text in enumerate(_GROUP.split(template)):
        if position % 2:
            parts.append(f"regexp_extract(name, {quote(pattern)}, {text}, 's')")
        elif text:
            parts.append(quote(text))
    return " || ".join(parts)


def create_role_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Create macros ``role_rule_of_leaf(name, is_inside)``, … in the session, one per subject.

    A macro for all subjects would compile all patterns for each call. Few analyses use roles, so
    the macros are created on demand from table ``role_rule``.
    """
    conditions: dict[str, list[tuple[str, int]]] = {subject: [] for subject in ROLE_SUBJECTS}
    for rule_id, applies_to, pattern, is_inside in connection.execute(
        "SELECT rule_id, applies_to, pattern, is_inside FROM role_rule ORDER BY rule_id"
    ).fetchall():
        inside = "is_inside AND " if is_inside else ""
        # A store from another source may have rules with unknown subjects, which are ignored.
        conditions.get(applies_to, []).append((inside + condition(pattern), rule_id))
    place = f"{SESSION}.main.{ROLE_CALL}"
    connection.execute(
        ";\n".join(
            f"CREATE OR REPLACE MACRO {place}{subject}(name, is_inside) AS {first_match(some)}"
            for subject, some in conditions.items()
        )
    )
