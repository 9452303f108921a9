"""All links of the manual lead to existing files and headings."""

import re

import pytest
from generate.markdown import slug
from generate.places import DOCS, REPO

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

PAGES = sorted(
    [*DOCS.rglob("*.md"), *(REPO / "queries").glob("*.md"), *REPO.glob("*.md")],
    key=lambda path: path.as_posix(),
)


def anchors(page):
    return {slug(text) for text in _HEADING.findall(_FENCE.sub("", page.read_text("utf-8")))}


def dead(page):
    """Return the broken links of a page; links to other sites are not checked."""
    found = []
    for target in _LINK.findall(_CODE.sub("", _FENCE.sub("", page.read_text("utf-8")))):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        is_known = there.exists() and there.is_relative_to(REPO)
        if not is_known or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(REPO).as_posix())
def test_no_link_is_dead(page):
    assert dead(page) == []


def test_dead_links_are_seen(tmp_path):
    page = tmp_path / "page.md"
    links = "[a](#a-page) [b](#b) [c](no.md) `[d](no.md)`"
    page.write_text(f"# A page\n{links}\n```\n[e](no.md)\n```\n")
    assert dead(page) == ["#a-page", "#b", "no.md"]


def test_every_page_of_the_manual_is_reached_from_the_readme():
    seen = set()
    ahead = [REPO / "README.md"]
    while ahead:
        page = ahead.pop()
        seen.add(page)
        for target in _LINK.findall(page.read_text("utf-8")):
            there = (page.parent / target.partition("#")[0]).resolve()
            if there.suffix in (".md", ".ipynb") and there.is_file() and there not in seen:
                ahead += [there]
    pages = {*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")}
    assert sorted(path.relative_to(REPO).as_posix() for path in pages - seen) == []
