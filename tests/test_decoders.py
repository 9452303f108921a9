"""Decoders of classes are created on import of their module, so never by two threads at once.

msgspec 0.22 completes its description of a class while it creates the first decoder; a second
thread that decodes at that time crashes the process. A comparison reads two traces on two threads.
"""

import ast

import pytest
from every_trace import REPO

PACKAGE = REPO / "tracekit"


def _late_decoders(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("msgspec.json.decode", "msgspec.convert"):
            types = [ast.unparse(one.value) for one in node.keywords if one.arg == "type"]
            plain = ("msgspec.Raw", "dict[str, msgspec.Raw]")
            found += [f"{path.name}:{node.lineno}: {one}" for one in types if one not in plain]
    return found


@pytest.mark.nightly("starts a process that imports everything")
def test_no_decoder_is_created_late():
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 100
    assert [place for path in paths for place in _late_decoders(path)] == []
