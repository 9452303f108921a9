"""The tables of the page about other tools are what `make peers` writes of their clones."""

import pytest
from made_parts import filled, part, table
from peers import __main__ as peers


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
