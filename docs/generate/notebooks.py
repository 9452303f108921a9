"""Run notebooks, and show them as pages.

The cells of a notebook are run here one after the other in one process, without a kernel: what a
cell ends with is shown as a notebook shows it, by `_repr_html_`, else by `repr`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

from .places import NOTEBOOKS, REPO
from .sessions import environment

_INDENT = 1


def notebooks() -> list[Path]:
    """Return the notebooks of the manual."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def executed(path: Path, folder: Path) -> str:
    """Return the text of a notebook's file with the outputs that its cells have now.

    Args:
        path: the notebook.
        folder: where the stores of the samples are kept meanwhile.

    Raises:
        Exception: whatever a cell raises.
    """
    notebook = json.loads(path.read_text("utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    # The cells name the samples from the notebook's own folder.
    with environment(folder), contextlib.chdir(path.parent):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                cell["execution_count"] = count
                cell["outputs"] = _outputs("".join(cell["source"]), names, count, path)
    return json.dumps(notebook, indent=_INDENT, ensure_ascii=False) + "\n"


def as_page(path: Path) -> str:
    """Return a notebook as Markdown: text, code, and what the code shows."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            html = "".join(data.get("text/html", []))
            text = "".join(output.get("text", data.get("text/plain", [])))
            parts.append(html or f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _outputs(source: str, names: dict[str, Any], count: int, path: Path) -> list[dict[str, Any]]:
    """Run a cell and return its outputs in the form of a notebook's file."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
    if shown is not None:
        tree.body.pop()
    cell = f"{path.name}[{count}]"
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, cell, "exec"), names)  # noqa: S102 - that is what a notebook is for
        if shown is not None:
            value = eval(compile(shown, cell, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = _lines(printed.getvalue())
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": _lines(_plain(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(_without_place(value._repr_html_())), **data}
        outputs.append(
            {
                "data": data,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def _plain(value: object) -> str:
    text = repr(value)
    # An address is another one each time.
    return f"<{type(value).__name__}>" if " object at 0x" in text else _without_place(text)


def _without_place(text: str) -> str:
    return text.replace(f"{REPO}/", "")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
