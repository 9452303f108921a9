"""Reference page of the Python API, from the docstrings of public names."""

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
    """Return the page: every public name with signature and docstring."""
    parts = [
        "# Python\n",
        (
            "Public names of `import tracekit`, loaded on first use so that the import is fast."
            " All exceptions are subclasses of `TracekitError`, with `.message`, `.hint`, and the"
            " `.exit_code` of the command line.\n"
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
    listed = [param for key, param in shown.parameters.items() if key != "self"]
    params = [_param(param) for param in listed]
    kinds = [param.kind for param in listed]
    star = next((i for i, kind in enumerate(kinds) if kind is inspect.Parameter.KEYWORD_ONLY), None)
    if star is not None and inspect.Parameter.VAR_POSITIONAL not in kinds:
        params.insert(star, "*")
    returned = shown.return_annotation
    end = "" if returned is inspect.Signature.empty else f" -> {returned}"
    one_line = f"{name}({', '.join(params)}){end}"
    if len(one_line) <= 88:
        return one_line
    return f"{name}(\n" + "".join(f"    {param},\n" for param in params) + f"){end}"


def _param(param: inspect.Parameter) -> str:
    """Return a parameter as in the source, with unquoted annotations."""
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(param.kind.name, "")
    default = "" if param.default is param.empty else f" = {param.default!r}"
    annotation = "" if param.annotation is param.empty else f": {param.annotation}"
    return f"{stars}{param.name}{annotation}{default}"


def _text(docstring: str) -> str:
    """Return a docstring as Markdown, with its sections as lists."""
    text = _ROLE.sub(lambda match: f"`{match[1] or match[2]}`", docstring)
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
