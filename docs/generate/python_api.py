"""The page of the Python face, from the docstrings of the public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import tracekit

from .markdown import prose

PAGE = "docs/reference/python.md"

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([^`]+)`|``([^`]+)``")


def python_page() -> dict[str, str]:
    """Return the page: every public name with its signature and docstring."""
    parts = [
        "# Python\n",
        (
            "The public names of `import tracekit`. They are loaded on first use, so the import"
            " costs nothing. All errors are kinds of `TracekitError`, with `.message`, `.hint` and"
            " the `.exit_code` that the command line leaves with.\n"
        ),
    ]
    for name in sorted(tracekit.__all__):
        value = getattr(tracekit, name)
        if callable(value):
            parts += _described(f"tracekit.{name}", value, "##")
            if inspect.isclass(value) and not issubclass(value, Exception):
                for member, inner in _members(value):
                    parts += _described(f"{name}.{member}", inner, "###")
    return {PAGE: "\n".join(parts)}


def _members(owner: type) -> Iterator[tuple[str, object]]:
    for name, value in vars(owner).items():
        is_shown = inspect.isfunction(value) or isinstance(value, property)
        if is_shown and not name.startswith("_"):
            yield name, value


def _described(name: str, value: object, mark: str) -> list[str]:
    about = value.fget if isinstance(value, property) else value
    parts = [f"{mark} {name}\n"]
    if inspect.isfunction(about) and not isinstance(value, property):
        parts.append(f"```python\n{_signature(name, about)}\n```\n")
    return [*parts, f"{_text(inspect.getdoc(about) or '')}\n"]


def _signature(name: str, function: object) -> str:
    if not inspect.isfunction(function):
        return name
    shown = inspect.signature(function)
    given = [param for key, param in shown.parameters.items() if key != "self"]
    params = [_param(param) for param in given]
    marks = [param.kind for param in given]
    star = next((i for i, kind in enumerate(marks) if kind is inspect.Parameter.KEYWORD_ONLY), None)
    if star is not None and inspect.Parameter.VAR_POSITIONAL not in marks:
        params.insert(star, "*")
    returned = shown.return_annotation
    end = "" if returned is inspect.Signature.empty else f" -> {returned}"
    one_line = f"{name}({', '.join(params)}){end}"
    if len(one_line) <= 88:
        return one_line
    return f"{name}(\n" + "".join(f"    {param},\n" for param in params) + f"){end}"


def _param(param: inspect.Parameter) -> str:
    """Return a parameter as it stands in the code, where annotations have no quotes."""
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(param.kind.name, "")
    default = "" if param.default is param.empty else f" = {param.default!r}"
    annotation = "" if param.annotation is param.empty else f": {param.annotation}"
    return f"{stars}{param.name}{annotation}{default}"


def _text(docstring: str) -> str:
    """Return a docstring as Markdown: a list for each of its sections."""
    text = _ROLE.sub(lambda found: f"`{found[1] or found[2]}`", docstring)
    head, *sections = _SECTION.split(text)
    parts = [prose(head.strip())]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        items = re.split(r"^    (?=\S)", body.strip("\n"), flags=re.MULTILINE)[1:]
        listed = "\n".join(f"- {_item(item, title)}" for item in items)
        parts.append(f"{title}:\n\n{listed}")
    return "\n\n".join(parts)


def _item(item: str, title: str) -> str:
    text = " ".join(item.split())
    name, colon, meaning = text.partition(": ")
    if title in ("Args", "Attributes", "Raises") and colon:
        return f"`{name}`: {prose(meaning)}"
    return prose(text)
