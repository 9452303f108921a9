"""`make docs-update`: regenerate command outputs, notebooks, and the picture of a breakdown.

With page names as arguments, only the command outputs of these pages are regenerated. Review the
diff before you commit it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .notebooks import executed, notebooks
from .own_page import make_files, own_page
from .picture import picture
from .places import OWN_PAGE, REPO, hand_written
from .sessions import with_outputs


def main(names: list[str]) -> None:
    """Write the generated parts into the pages.

    Args:
        names: paths of hand-written pages; if empty, everything is regenerated.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for page in map(Path, names):
            page.write_text(with_outputs(page.read_text("utf-8"), folder), "utf-8")
        if names:
            return
        for path, text in picture(folder).items():
            (REPO / path).write_text(text, "utf-8")
        for page in hand_written():
            page.write_text(with_outputs(page.read_text("utf-8"), folder), "utf-8")
        make_files(own := folder / "own")
        OWN_PAGE.write_text(own_page(own), "utf-8")
        for notebook in notebooks():
            notebook.write_text(executed(notebook, folder), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
