"""The arguments of engines that answer over HTTP: where the server is, and what is sent to it."""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
from collections.abc import Mapping
from typing import Any

from tracekit.errors import UsageError
from tracekit.redaction import mask_text

# The key that OpenAI's own clients read; it is sent, and written nowhere.
_KEY_VARIABLE = "OPENAI_API_KEY"


def key_headers(credentials: str | None) -> dict[str, str]:
    """Return the header that says who asks: the key of the environment, or the URL's user.

    Raises:
        UsageError: the key cannot be sent.
    """
    key = (os.environ.get(_KEY_VARIABLE) or "").strip()
    if key:
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"{_KEY_VARIABLE} holds characters that a header cannot")
        return {"Authorization": f"Bearer {key}"}
    if credentials is None:
        return {}
    encoded = base64.b64encode(urllib.parse.unquote(credentials).encode()).decode()
    return {"Authorization": f"Basic {encoded}"}


def base_url(text: str) -> tuple[str, str | None]:
    """Return the server's address without a path that the dialect adds itself.

    Returns:
        The URL without user and password, and these as `user:password`, if there are any.

    Raises:
        UsageError: it is no address.
    """
    url = text.strip().rstrip("/").removesuffix("/v1")
    wrong = UsageError(
        f"--url {mask_text(text)!r} is no address of a server", hint="http://HOST:PORT"
    )
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:  # also of a name that cannot be one
        raise wrong from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise wrong
    credentials, at, _ = parts.netloc.rpartition("@")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port is None else f"{shown}:{port}"
    path = urllib.parse.quote(parts.path, safe="/%:@!$&'()*+,;=~-._")
    return f"{parts.scheme}://{netloc}{path}", credentials if at else None


def extra_body(text: object) -> dict[str, Any]:
    """Return the members that `--request-body` adds to every request.

    Raises:
        UsageError: it is no JSON object.
    """
    if text is None:
        return {}
    try:
        value = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--request-body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("--request-body is no JSON object")
    return value


def seconds_of(values: Mapping[str, object], name: str, default_s: float) -> float:
    """Return an argument in seconds.

    Args:
        values: the arguments, by `Argument.key`.
        name: the key.
        default_s: what it is where it was not given.

    Raises:
        UsageError: it is not more than 0.
    """
    value = values.get(name)
    seconds = default_s if value is None else float(str(value))
    if seconds <= 0:
        raise UsageError(f"--{name.replace('_', '-')} is {seconds:g}, and must be more than 0")
    return seconds
