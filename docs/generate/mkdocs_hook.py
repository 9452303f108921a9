"""What the manual's site needs beyond Markdown in docs/.

- A link from a page to a file outside of docs/ works in the repository; on the site the file comes
  along below `source/`. A link to something that does not exist stops the build.
- The reference is made here. A link to a file that it shows, such as that of an analysis, leads to
  the reference, unless the text of the link is the path of the file.
- A notebook is a page.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from generate.analyses import page_of
from generate.notebooks import as_page, notebooks
from generate.pages import pages_of_sources, reference
from generate.places import DOCS, REPO
from generate.subjects import by_subject
from tracekit.analysis.catalog import load_catalog

_log = logging.getLogger("mkdocs.plugins.tracekit")

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_OUTSIDE = "source/"
_ALL_ANALYSES = "reference/analyses/*"
_reference: dict[Path, str] = {}
"""The text of the pages of the reference."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the analyses into the menu."""
    _expand(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference, notebooks as pages, and the files outside of docs/ that pages link to."""
    with tempfile.TemporaryDirectory() as folder:
        _reference.update((REPO / path, text) for path, text in reference(Path(folder)).items())
    for path, text in _reference.items():
        files.append(File.generated(config, _in_docs(path), content=text))
    for notebook in notebooks():
        uri = _in_docs(notebook).replace(".ipynb", ".md")
        files.append(File.generated(config, uri, content=as_page(notebook)))
    seen: set[Path] = set()
    pages = [*DOCS.rglob("*.md"), *_reference]
    for page in pages:
        for target in _targets(page, _reference.get(page) or page.read_text("utf-8")):
            if target in seen or _is_in_manual(target) or not target.is_file():
                continue
            seen.add(target)
            if target.suffix == ".md":
                pages.append(target)
            uri = _OUTSIDE + target.relative_to(REPO).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave docs/ to where their targets are on the site, and show SQL."""
    del config, files
    uri = page.file.src_uri
    outside = uri.startswith(_OUTSIDE)
    source = REPO / uri.removeprefix(_OUTSIDE) if outside else DOCS / uri
    shown = {} if source in _reference else pages_of_sources()

    def turned(found: re.Match[str]) -> str:
        target = _resolved(source, found["path"])
        path = os.path.relpath(target, REPO)
        anchor = found["anchor"] or ""
        if path in shown and path not in found["text"]:
            path, _, name = shown[path].partition("#")
            target, anchor = REPO / path, f"#{name}" if name else ""
        if not (target.exists() or target in _reference):
            _log.warning("%s links to %s, which does not exist", uri, found["path"])
            return found[0]
        if target.is_dir():
            return found["text"]
        if _is_in_manual(target):
            there = _in_docs(target).replace(".ipynb", ".md")
        else:
            there = _OUTSIDE + target.relative_to(REPO).as_posix()
        relative = os.path.relpath(there, Path(uri).parent)
        return f"[{found['text']}]({relative}{anchor})"

    return _outside_of_code(markdown, turned)


def _outside_of_code(text: str, turned: Any) -> str:
    """Replace links, but where they are code."""
    parts, at = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(turned, text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, _LINK.sub(turned, text[at:])])


def _targets(page: Path, text: str) -> list[Path]:
    return [_resolved(page, found["path"]) for found in _LINK.finditer(_CODE.sub("", text))]


def _resolved(page: Path, link: str) -> Path:
    """Return the file that a link means; of a folder its README, where it has one."""
    target = Path(os.path.normpath(page.parent / link))
    readme = target / "README.md"
    return readme if readme.is_file() else target


def _is_in_manual(target: Path) -> bool:
    return target.is_relative_to(DOCS) and not target.is_relative_to(DOCS / "generate")


def _in_docs(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


def _expand(nav: Any) -> None:
    """Replace the entry that stands for all analyses by their pages, by subject."""
    if isinstance(nav, dict):
        for inner in nav.values():
            _expand(inner)
    elif isinstance(nav, list):
        for at, entry in reversed(list(enumerate(nav))):
            if entry == _ALL_ANALYSES:
                nav[at : at + 1] = _pages_by_subject()
            else:
                _expand(entry)


def _pages_by_subject() -> list[str]:
    analyses = load_catalog().analyses.values()
    return [_in_docs(REPO / page_of(subject.name)) for subject in by_subject(analyses)]
