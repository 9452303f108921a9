"""Paths in the repository."""

from __future__ import annotations

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
README = REPO / "README.md"
OWN_PAGE = DOCS / "write-your-own-analysis.md"
"""The page whose commands need additional files (:mod:`generate.own_page`)."""
NOTEBOOKS = DOCS / "notebooks"
TOP_PAGES = tuple(REPO / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
"""Pages outside docs/ whose commands are run."""

SAMPLES = (
    "sample_traces/pretrain_R+Z3",
    "docs/samples/made_up_step.json",
    "docs/samples/made_up_compiled.json",
    "docs/samples/made_up_no_kernels.json",
    "docs/samples/made_up_memory.json",
    "sample_traces/serve_transformers",
)
"""Samples for examples of trace analyses; an example uses the first sample with rows."""

RUN_SAMPLES = (
    "sample_traces",
    "sample_traces/serve_transformers",
    "docs/samples/made_up_bench",
)
"""Samples for examples of analyses of runs."""


def hand_written() -> list[Path]:
    """Return all pages whose commands run in the repository."""
    return [*TOP_PAGES, *(page for page in sorted(DOCS.rglob("*.md")) if page != OWN_PAGE)]


def in_repo(path: str | Path) -> str:
    """Return a path relative to the repository.

    Args:
        path: path of a file of the loaded package or of the repository.

    Raises:
        ValueError: the file is outside the repository, because another package is installed.
    """
    return Path(path).resolve().relative_to(REPO).as_posix()
