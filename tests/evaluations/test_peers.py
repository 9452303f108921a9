"""Programs in evaluations/ can be imported, and `make peers` writes the page about other tools."""

import importlib
from pathlib import Path

import pytest
from made_parts import filled, part, table
from peers import __main__ as peers

# tests/gpu has another module with the name of evaluations/devices.
PROGRAMS = sorted(
    ".".join(path.parts[-2:]).removesuffix(".py")
    for path in Path(peers.__file__).parents[1].glob("*/*.py")
    if path.with_name("__main__.py").exists() and path.parent.name != "devices"
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_can_be_imported(name):
    """Regression test: nothing noticed that names in two of them had moved."""
    importlib.import_module(name)


def test_parts_of_a_page_are_replaced():
    page = "a\n<!-- begin: make x -->\nold\n<!-- end: make x -->\nb\n"
    made = table(("n", "of"), [(1, "`two`")])
    assert part(filled(page, "make x", made), "make x") == made.strip()
    assert filled(filled(page, "make x", made), "make x", "old") == filled(page, "make x", "old")
    with pytest.raises(ValueError, match="unpack"):
        filled(page, "make y", made)


def test_the_page_has_the_generated_parts():
    """Parts with new recordings differ each time, so only their existence is checked."""
    page = peers.PAGE.read_text("utf-8")
    made = peers.parts()
    assert all(part(page, f"make peers, {name}") for name in made)
    del made["replay"], made["memory"]
    if not made:
        pytest.skip("TRACEKIT_TRACELENS and TRACEKIT_HTA name no clones of these")
    for name, make in made.items():
        assert part(page, f"make peers, {name}") == make().strip(), name
