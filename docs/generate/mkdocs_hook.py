"""MkDocs hook: adds the reference, notebooks, and linked source files to the site.

- Files outside docs/ that pages link to are copied below `source/`. A broken link fails the build.
- A link to a source file that the reference documents, such as an analysis, points to the
  reference, unless the link text is the path of the file.
- Notebooks become pages.
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
"""Text of each reference page by its path."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the analyses to the menu."""
    _expand(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference, notebooks as pages, and files outside docs/ that pages link to."""
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
    """Rewrite links so that they work on the site."""
    del config, files
    uri = page.file.src_uri
    outside = uri.startswith(_OUTSIDE)
    source = REPO / uri.removeprefix(_OUTSIDE) if outside else DOCS / uri
    shown = {} if source in _reference else pages_of_sources()

    def rewrite(match: re.Match[str]) -> str:
        target = _resolved(source, match["path"])
        path = os.path.relpath(target, REPO)
        anchor = match["anchor"] or ""
        if path in shown and path not in match["text"]:
            path, _, name = shown[path].partition("#")
            target, anchor = REPO / path, f"#{name}" if name else ""
        if not (target.exists() or target in _reference):
            _log.warning("%s links to %s, which does not exist", uri, match["path"])
            return match[0]
        if target.is_dir():
            return match["text"]
        if _is_in_manual(target):
            site_path = _in_docs(target).replace(".ipynb", ".md")
        else:
            site_path = _OUTSIDE + target.relative_to(REPO).as_posix()
        relative = os.path.relpath(site_path, Path(uri).parent)
        return f"[{match['text']}]({relative}{anchor})"

    return _replace_links(markdown, rewrite)


def _replace_links(text: str, rewrite: Any) -> str:
    """Rewrite all links outside code blocks."""
    parts, at = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(rewrite, text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, _LINK.sub(rewrite, text[at:])])


def _targets(page: Path, text: str) -> list[Path]:
    return [_resolved(page, match["path"]) for match in _LINK.finditer(_CODE.sub("", text))]


def _resolved(page: Path, link: str) -> Path:
    """Return the target of a link; for a folder, its README if it has one."""
    target = Path(os.path.normpath(page.parent / link))
    readme = target / "README.md"
    return readme if readme.is_file() else target


def _is_in_manual(target: Path) -> bool:
    return target.is_relative_to(DOCS) and not target.is_relative_to(DOCS / "generate")


def _in_docs(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


def _expand(nav: Any) -> None:
    """Replace the placeholder for analyses by their pages, in the order of subjects."""
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
