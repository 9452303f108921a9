"""Untrusted small files are rejected in one sentence, in time linear in their size."""

import json
import os
import time
from pathlib import Path

import pytest

from tracekit import manifest
from tracekit.analysis.names.rules import check_rules
from tracekit.checking import baseline
from tracekit.checking.rules import load_rules, parse_rule
from tracekit.dataset.manifest import read_manifest
from tracekit.errors import TracekitError
from tracekit.small_files import parse_json, parse_toml
from tracekit.storage import Location
from tracekit.units import parse_bytes

DOORS = {
    "pyproject.toml": load_rules,
    "check.toml": load_rules,
    "rules.toml": check_rules,
    "main.baseline.json": lambda path: baseline.load("main", path.parent),
    "run.json": manifest.read,
    "manifest.json": lambda path: read_manifest(Location.of(path.parent)),
}
HOSTILE = {
    ".toml": {
        "a key of many parts": b".".join([b"a"] * 60_000) + b" = 1",
        "a key after texts": b'a = """"b"""""\n' + b".".join([b"c"] * 60_000) + b" = 1",
        "quoted parts": b".".join([b'"a = b"'] * 30_000) + b" = 1",
        "brackets": b"a = " + b"[" * 100_000,
        "tables in tables": b"a = " + b"{b = " * 20_000,
        "many digits": b"a = " + b"9" * 5_000,
        "many rules": b"[tool.tracekit.check]\nrules = [" + b"'a<1', " * 501 + b"]\n",
        "other types": b"tool = 3\nrules = 3\nclass = 3\nrange = 1979-05-27",
        "no text": b"\xff\xfe",
        "long": b"#" * 256_001,
    },
    ".json": {
        "brackets": b"[" * 100_000,
        "nested": b"[" * 500 + b"]" * 500,
        "many digits": b'{"a": ' + b"9" * 5_000 + b"}",
        "other types": b'{"schema_version": [], "traces": 3, "modules": {}}',
        "no object": b"3",
        "no text": b"\xff\xfe\xfd",
    },
}
CASES = [
    (door, case) for door in DOORS for case in (*HOSTILE[Path(door).suffix], "a FIFO", "/dev/zero")
]


@pytest.mark.parametrize(("door", "case"), CASES)
def test_a_hostile_file_is_refused(tmp_path, door, case):
    path = tmp_path / door
    if case == "a FIFO":
        os.mkfifo(path)
    elif case == "/dev/zero":
        path.symlink_to(case)
    else:
        path.write_bytes(HOSTILE[path.suffix][case])
    begin_s = time.process_time()
    with pytest.raises(TracekitError) as caught:
        DOORS[door](path)
    assert time.process_time() - begin_s < 2
    assert str(tmp_path) in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_rule, "a <= " + " " * 100_000 + "x"),
        (parse_rule, "a" + " <" * 50_000),
        (parse_rule, "a <= " + "1" * 100_000 + "!"),
        (parse_rule, " " * 100_000 + "="),
        (parse_bytes, "1" + " " * 100_000 + "x"),
        (parse_toml, b"a" * 500_000),
        (parse_toml, b"a " * 250_000),
        (parse_toml, b'"""\\' * 100_000),
        (parse_toml, b'""""' * 100_000),
        (parse_toml, b"'''\"" * 100_000),
        (parse_json, b"[" * 1_000_000),
    ],
)
def test_scanning_is_linear(parse, text):
    begin_s = time.process_time()
    with pytest.raises((ValueError, TracekitError)):
        parse(text)
    assert time.process_time() - begin_s < 1


def test_values_in_it_are_bounded():
    deep = json.dumps({"a": json.loads("[" * 99 + "]" * 99)}).encode()
    assert parse_json(deep)
    for data in (
        b"[" + deep + b"]",
        b"[1e101]",
        b"[" + b"9" * 400 + b"]",
        b"[" + b"0," * 4_000_001,
    ):
        with pytest.raises(ValueError, match=r"deep|large|values"):
            parse_json(data)


def test_texts_with_dots_are_no_keys():
    text = f'a = "{"." * 100}" # {"." * 100}\nb = """\n{"." * 100}"""\nc = \'{"." * 100}\'\n'
    assert parse_toml(text.encode()) == {"a": "." * 100, "b": "." * 100, "c": "." * 100}


def test_5_000_classes_are_refused(tmp_path):
    path = tmp_path / "rules.toml"
    classes = "".join(f'[class.c{number}]\nkind = "comm"\n' for number in range(5_000))
    path.write_text(f'[[rule]]\nclass = "c1"\npattern = "x"\n{classes}')
    begin_s = time.process_time()
    with pytest.raises(TracekitError, match="5,000 classes"):
        check_rules(path)
    assert time.process_time() - begin_s < 4
