"""`make docs-update`: write the reference, the outputs of commands, notebooks and pictures anew.

With names of pages written by hand, only the outputs of their commands. Look at the difference
before you commit it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .notebooks import executed, notebooks
from .own_page import make_files, own_page
from .pages import generated
from .places import DOCS, OWN_PAGE, REFERENCE, REPO, hand_written
from .sessions import with_outputs


def main(names: list[str]) -> None:
    """Write what is generated into the tree, and remove what is no longer made.

    Args:
        names: pages written by hand, as paths from the current folder; if none, all is written.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for page in map(Path, names):
            page.write_text(with_outputs(page.read_text("utf-8"), folder), "utf-8")
        if names:
            return
        pages = generated(folder)
        for stale in REFERENCE.rglob("*.md"):
            if stale.relative_to(REPO).as_posix() not in pages:
                stale.unlink()
        for path, text in pages.items():
            target = REPO / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        for page in hand_written():
            page.write_text(with_outputs(page.read_text("utf-8"), folder), "utf-8")
        make_files(own := folder / "own")
        OWN_PAGE.write_text(own_page(own), "utf-8")
        for notebook in notebooks():
            notebook.write_text(executed(notebook, folder), "utf-8")
    sys.stdout.write(f"{len(pages)} pages and pictures written below {DOCS.relative_to(REPO)}/\n")


if __name__ == "__main__":
    main(sys.argv[1:])
