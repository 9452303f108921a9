"""Runs notebooks, and converts them to pages.

The cells of a notebook run in this process, without a Jupyter kernel. The value of a cell's last
expression is shown as in Jupyter, by `_repr_html_` if it exists, otherwise by `repr`.
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
    """Return the paths of all notebooks of the manual."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def executed(path: Path, folder: Path) -> str:
    """Run a notebook, and return the text of its file with the new outputs.

    Args:
        path: the notebook.
        folder: temporary folder for the stores of the samples.

    Raises:
        Exception: a cell raised it.
    """
    notebook = json.loads(path.read_text("utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    # Paths of samples in the cells are relative to the folder of the notebook.
    with environment(folder), contextlib.chdir(path.parent):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                cell["execution_count"] = count
                cell["outputs"] = _outputs("".join(cell["source"]), names, count, path)
    return json.dumps(notebook, indent=_INDENT, ensure_ascii=False) + "\n"


def as_page(path: Path) -> str:
    """Return a notebook as Markdown: text, code, and outputs."""
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
    """Run a cell and return its outputs in notebook format."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
    if shown is not None:
        tree.body.pop()
    cell = f"{path.name}[{count}]"
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, cell, "exec"), names)  # noqa: S102 - runs the repository's notebooks
        if shown is not None:
            value = eval(compile(shown, cell, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = _lines(printed.getvalue())
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": _lines(_plain(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(_without_repo_path(value._repr_html_())), **data}
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
    # Memory addresses differ between runs.
    return f"<{type(value).__name__}>" if " object at 0x" in text else _without_repo_path(text)


def _without_repo_path(text: str) -> str:
    return text.replace(f"{REPO}/", "")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
