"""Where things lie in the repository."""

from __future__ import annotations

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
README = REPO / "README.md"
OWN_PAGE = DOCS / "write-your-own-analysis.md"
"""The one page whose commands need files of its own (:mod:`generate.own_page`)."""
NOTEBOOKS = DOCS / "notebooks"
TOP_PAGES = tuple(REPO / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
"""Pages outside of docs/ whose commands are run as well."""

SAMPLES = (
    "sample_traces/pretrain_R+Z3",
    "docs/samples/made_up_step.json",
    "docs/samples/made_up_compiled.json",
    "docs/samples/made_up_no_kernels.json",
    "docs/samples/made_up_memory.json",
    "sample_traces/serve_transformers",
)
"""Where the example of an analysis of traces is looked for: the first that gives it a row."""

RUN_SAMPLES = (
    "sample_traces",
    "sample_traces/serve_transformers",
    "docs/samples/made_up_bench",
)
"""And that of an analysis of runs."""


def hand_written() -> list[Path]:
    """Return the pages whose commands are run in the repository."""
    return [*TOP_PAGES, *(page for page in sorted(DOCS.rglob("*.md")) if page != OWN_PAGE)]


def in_repo(path: str | Path) -> str:
    """Return a path as it is written from the root of the repository.

    Args:
        path: of a file that the package was loaded from, or of one in the repository.

    Raises:
        ValueError: it lies elsewhere: the package is not installed from this repository.
    """
    return Path(path).resolve().relative_to(REPO).as_posix()
