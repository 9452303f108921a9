"""Decoders of classes are made when their module is imported, so not by two threads at once.

What msgspec knows of a class is filled in while the first decoder of it is made; a second thread
that decodes meanwhile reads what is not there yet and the process ends (msgspec 0.22). Two traces
are read by two threads when they are compared.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "tracekit"


def _late_decoders(path: Path) -> list[str]:
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


def test_no_decoder_of_a_class_is_made_late() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 100
    assert [place for path in paths for place in _late_decoders(path)] == []
