"""The secrets that a serving run is given, so that none of them is kept or shown."""

from __future__ import annotations

import base64
import os
import urllib.parse
from collections.abc import Mapping, Sequence

from tracekit.redaction import (
    Redactor,
    secrets_in_environment,
    secrets_in_text,
    secrets_in_words,
)

_WITH_SECRETS = ("launch", "request_body", "url")


def redactor_of(values: Mapping[str, object], command: Sequence[str] = ()) -> Redactor:
    """Return what takes out the secrets of a run: those of its arguments and of the environment.

    Args:
        values: the arguments, by `Argument.key`.
        command: the command line, word by word.
    """
    found = secrets_in_environment(os.environ) | secrets_in_words(command)
    for key in _WITH_SECRETS:
        value = values.get(key)
        if value is not None:
            found |= secrets_in_text(str(value))
    # Not taken apart as a URL: it may be none.
    user, at, _ = str(values.get("url") or "").rpartition("@")
    if at:
        user = user.rpartition("://")[2]
        plain = urllib.parse.unquote(user)
        for text in (user, plain):
            found.add(text.partition(":")[2] or text)
        # As it is sent.
        found.add(base64.b64encode(plain.encode()).decode())
    return Redactor(found)
