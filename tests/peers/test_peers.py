"""The tables of the page about other tools are what `make peers` writes of their clones."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from made_parts import filled, part, table

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    """Return the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        spec = importlib.util.spec_from_file_location("peers_main", HERE / "__main__.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        for name in ("hta", "memory", "replay", "tracelens"):
            sys.modules.pop(name, None)


def test_parts_of_a_page_are_replaced() -> None:
    page = "a\n<!-- begin: make x -->\nold\n<!-- end: make x -->\nb\n"
    made = table(("n", "of"), [(1, "`two`")])
    assert part(filled(page, "make x", made), "make x") == made.strip()
    assert filled(filled(page, "make x", made), "make x", "old") == filled(page, "make x", "old")
    with pytest.raises(ValueError, match="unpack"):
        filled(page, "make y", made)


def test_the_page_says_what_is_made(peers: ModuleType) -> None:
    """What is recorded anew is another every time: of that only whether the part is there."""
    page = peers.PAGE.read_text("utf-8")
    made = peers.parts()
    assert all(part(page, f"make peers, {name}") for name in made)
    del made["replay"], made["memory"]
    if not made:
        pytest.skip("TRACEKIT_TRACELENS and TRACEKIT_HTA name no clones of these")
    for name, make in made.items():
        assert part(page, f"make peers, {name}") == make().strip(), name
