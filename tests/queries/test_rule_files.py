"""The rule files as data: kernel classes, devices, ranges and roles.

Kernel classes are applied as the loader applies them, as one CASE of constant RE2 patterns.
"""

import functools
import re
import tomllib
from pathlib import Path

import duckdb
import pytest
from every_trace import REPO
from traces_by_hand import kernel, span, work

import tracekit
from tracekit import palette
from tracekit.analysis.names import device_rules
from tracekit.analysis.names.rules import (
    CLASS_FLAGS,
    CLASS_TEXTS,
    KINDS,
    builtin_content,
    condition,
    load_range_rules,
    load_role_rules,
)
from tracekit.errors import UsageError
from tracekit.opening import ingest
from tracekit.sql_text import quote

RULES_FILE = REPO / "queries" / "rules" / "kernel_class.toml"

OPERATOR_CATEGORIES = {"cpu_op", "Operator", "user_annotation"}


@functools.cache
def document():
    return tomllib.loads(RULES_FILE.read_text(encoding="utf-8"))


def kinds():
    return {name: facts["kind"] for name, facts in document()["class"].items()}


def rules():
    return [{"applies_to": "device", **rule} for rule in document()["rule"]]


@functools.cache
def first_match_sql(applies_to):
    """The CASE that gives the position of the first rule that matches `name` and `category`."""
    branches = []
    for position, rule in enumerate(rules()):
        if rule["applies_to"] != applies_to:
            continue
        condition = f"regexp_matches(name, {quote(rule['pattern'])})"
        if "category" in rule:
            condition += f" AND regexp_matches(category, {quote(rule['category'])})"
        branches.append(f"WHEN {condition} THEN {position}")
    return f"CASE {' '.join(branches)} END"


def winners(applies_to, named):
    """Return the position of the first matching rule by name; None if no rule matches."""
    distinct = sorted(set(named))
    if not distinct:
        return {}
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE named (category VARCHAR, name VARCHAR)")
        connection.executemany("INSERT INTO named VALUES (?, ?)", distinct)
        rows = connection.execute(
            f"SELECT category, name, {first_match_sql(applies_to)} FROM named"
        ).fetchall()
    return {(category, name): position for category, name, position in rows}


def classes(applies_to, named):
    return {
        key: "other" if position is None else rules()[position]["class"]
        for key, position in winners(applies_to, named).items()
    }


def test_classes_are_valid():
    for name, facts in document()["class"].items():
        assert set(facts) <= {"kind", "colour", "role", *CLASS_FLAGS, *CLASS_TEXTS}, name
        assert all(isinstance(facts[flag], bool) for flag in CLASS_FLAGS if flag in facts), name
        assert facts["kind"] in KINDS, name
        assert facts["colour"] in palette.NAMED, name
        assert (facts["kind"] == "comm") == ("collective" in facts), name
        assert facts["kind"] != "memcpy" or facts["copy"] in ("h2d", "d2h", "d2d"), name


CLASS = f"(?:{'|'.join(document()['class'])})"
TESTS_A_CLASS = re.compile(
    rf"\b(?:\w+_)?class\s*(?:=|<>|!=|IN|NOT IN|IS (?:NOT )?DISTINCT FROM)\s*\(?\s*'{CLASS}'"
    rf"|CASE (?:\w+\.)?(?:\w+_)?class\s+WHEN '{CLASS}'|['\"](?=comm_|memcpy_){CLASS}['\"]"
)
NAMING = {
    "queries/kernels/class_by_op.sql": "the class that an op gives its kernels",
    "queries/events/device_work.sql": "communication by its category is comm_other",
    "queries/health/health.sql": "other is no class",
    "tracekit/paper/measures.py": "the rows of a published table",
    "tracekit/analysis/macros.py": "whether an analysis has work",
    "tracekit/cli/commands/pivot.py": "an example of a condition",
    "tracekit/mcp/answers.py": "an example of a condition",
    "tracekit/trace.py": "an example of a condition",
}
"""The files that name classes, and why they do."""


def test_only_the_rules_name_classes():
    """Everything else asks for the attributes of a class, so that a new class is one entry."""
    found = {}
    for path in (*REPO.glob("queries/*/*.sql"), *REPO.glob("tracekit/**/*.py")):
        code = re.sub(r"(?m)^\s*--.*$", "", path.read_text("utf-8"))
        names = TESTS_A_CLASS.findall(code)
        if names:
            found[str(path.relative_to(REPO))] = names
    assert found.keys() <= NAMING.keys(), found


def test_rules_are_valid():
    for position, rule in enumerate(rules()):
        where = (position, rule)
        assert rule["class"] in kinds(), where
        assert rule["applies_to"] in ("device", "cpu"), where
        assert all(rule[key].strip() for key in ("pattern", "source")), where
        assert not set(rule) - {"class", "applies_to", "pattern", "category", "source"}, where
        assert not (rule["applies_to"] == "cpu" and rule["class"].startswith("memcpy_")), where


def test_patterns_compile_as_re2():
    patterns = [rule[key] for rule in rules() for key in ("pattern", "category") if key in rule]
    patterns += [rule["pattern"] for rule in (*load_range_rules(), *load_role_rules())]
    devices = builtin_content(device_rules.FILE_NAME)
    patterns += [devices["unknown"]["process"], devices["unknown"]["but_not"]]
    keys = ("process", "label", "thread", "category", "event", "value")
    patterns += [rule[key] for rule in devices["rule"] for key in keys if key in rule]
    marks = ("call", "label", "product", "op")
    patterns += [mark[key] for mark in devices["unrecorded"] for key in marks if key in mark]
    for pattern in patterns:
        duckdb.execute("SELECT regexp_matches('name', ?)", [pattern])


def test_device_rules_are_valid():
    content = builtin_content(device_rules.FILE_NAME)
    known = {field for rule in content["rule"] for field in rule}
    assert known == {
        "accelerator", "role", "process", "label", "thread", "category", "event", "argument",
        "value", "class", "is_fallback", "is_one_device",
    }  # fmt: skip
    for rule in content["rule"]:
        assert rule["role"] in device_rules.ROLES
        assert device_rules.lane_sql(rule) != "TRUE"
        assert ("argument" in rule) == ("value" in rule)
    assert all(mark["reason"] for mark in content["unrecorded"])


def test_no_pattern_matches_an_empty_or_unknown_name():
    names = [("kernel", name) for name in ("", "x", "void acme::frobnicate<int>(int*)")]
    for applies_to in ("device", "cpu"):
        assert set(winners(applies_to, names).values()) == {None}


# Names that each rule wins: class, category, the public trace that it is in or -, and the name.
EXAMPLES = Path(__file__).with_name("example_kernel_names.txt")


def examples():
    return [line.split(" | ") for line in EXAMPLES.read_text("utf-8").splitlines()]


def subject_of(category):
    return "cpu" if category in OPERATOR_CATEGORIES else "device"


def test_every_rule_wins_an_example():
    won = set()
    for subject in ("device", "cpu"):
        expected = {
            (category, name): class_name
            for class_name, category, _, name in examples()
            if subject_of(category) == subject
        }
        assert classes(subject, expected) == expected
        won |= {*winners(subject, expected).values()}
    assert won == {*range(len(rules()))}


# Spellings of kernels that the public traces do not hold, or hold little of; arguments shortened.
# Each line is the class and the name; most contain a word of another class.
TRAPS = Path(__file__).with_name("misleading_kernel_names.txt")


def test_names_that_mislead():
    expected = {}
    for line in TRAPS.read_text("utf-8").splitlines():
        class_name, _, name = line.partition(" | ")
        expected[("kernel", name)] = class_name
    found = classes("device", expected)
    wrong = {
        name: (found[name], expected[name]) for name in expected if found[name] != expected[name]
    }
    assert wrong == {}


def test_a_plain_pattern_means_the_same_as_its_regular_expression():
    names = ["tk/phase/data", "tk/phase/data2", "Optimizer.zero_grad#SGD", "Optimizer_zero_grad"]
    names += ["## forward ##", "nccl:all_reduce", "step[EXTEND bs=1]", "autograd::engine::x"]
    with duckdb.connect() as connection:
        for pattern in (rule["pattern"] for rule in load_range_rules()):
            for name in names:
                sql = condition(pattern).replace("name", quote(name), 1)
                ((same,),) = connection.execute(
                    f"SELECT ({sql}) = regexp_matches({quote(name)}, {quote(pattern)})"
                ).fetchall()
                assert same, (pattern, name)


def test_kernel_rules_of_the_user(tiny_trace, tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(
        "[class]\nring = {kind = 'comm'}\nproduct = {is_gemm = true, role = 'MLP'}\n"
        "softmax = {is_fusible = true}\n"
        "[[rule]]\nclass = 'product'\npattern = '^my_product'\n"
        "[[rule]]\nclass = 'ring'\napplies_to = 'device'\npattern = '^my_'\n"
    )
    events = [kernel("my_gemm", 0, 4), kernel("ampere_sgemm_128x64_tn", 4, 6)]
    source = tiny_trace([*events, kernel("my_product", 6, 7)])
    with tracekit.open(ingest([source], tmp_path / "s.duckdb", rules=path)) as trace:
        rows = trace.query("kernel_classes").to_dicts()
        assert [(row["class"], row["kind"]) for row in rows] == [
            *(("ring", "comm"), ("gemm", "compute"), ("product", "compute"))
        ]
        assert {row["gemm_kernel_ns"] for row in trace.query("gemm_share").to_dicts()} == {3_000}
        assert trace.query("timeline").column("exposed_comm_ns") == [4_000]
        assert trace.sql(
            "SELECT c, is_gemm(c), has_flops(c), is_fusible(c), copy_of(c), collective_of(c), "
            "serving_task_of(c) "
            "FROM (VALUES ('product'), ('gemm'), ('softmax'), ('memset'), ('comm_p2p')) AS t (c)"
        ).rows == [
            ("product", True, False, False, "none", "none", "other"),
            ("gemm", True, True, False, "none", "none", "GEMM"),
            ("softmax", False, False, True, "none", "none", "other"),
            ("memset", False, False, False, "set", "none", "other"),
            ("comm_p2p", False, False, False, "none", "p2p", "other"),
        ]
    last = load_role_rules(path)[-1]
    assert (last["role"], last["applies_to"], last["pattern"]) == ("MLP", "class", "^product$")


def test_ranges_and_roles_of_the_user(tiny_trace, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(
        "[[range]]\napplies_to = 'range'\nmeans = 'module'\nphase = 'prefill'\n"
        "pattern = '^my/(.*)$'\nlabel = '\\1'\n"
        "[[role]]\nrole = 'MLP'\napplies_to = 'leaf'\npattern = '^blob$'\n"
    )
    events = [span("user_annotation", "my/blob", 0, 3), *work(1, 10, 15, 1)]
    with tracekit.open(tiny_trace(events), cache=False, rules=rules) as trace:
        (row,) = trace.query("roles").to_dicts()
        assert (row["phase"], row["role"], row["wall_ns"]) == ("prefill", "MLP", 5_000)


@pytest.mark.parametrize(
    "text",
    [
        "[[range]]\napplies_to = 'range'\nmeans = 'module'",
        "[[range]]\napplies_to = 'r'\nmeans = 'span'\npattern = 'x'",
        "[[range]]\napplies_to = 'op'\nmeans = 'span'\npattern = '('",
        "[[range]]\ncolour = 'red'",
        "[[range]]\napplies_to = 'op'\nmeans = 'span'\npattern = 'x'\n[kinds]\ngemm = 'compute'",
        "[[role]]\nrole = 'MLP'\napplies_to = 'leaf'",
        "[[role]]\nrole = 'MLP'\napplies_to = 'x'\npattern = 'x'",
        "[[role]]\nrole = 'MLP'\napplies_to = 'op'\npattern = '['",
    ],
)
def test_rules_that_are_not_valid(tmp_path, text):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    assert tomllib.loads(text)
    load = load_role_rules if text.startswith("[[role]]") else load_range_rules
    with pytest.raises(UsageError):
        load(path)
