"""Lines that a CI system would obey, made plain where they leave for stdout and stderr.

GitHub's runner obeys a line that begins with `::` and `##[` anywhere in one, Azure's `##[` and
`##vso[`, TeamCity's `##teamcity[`. No name in a trace may speak to them. It is always done, for a
container or a remote shell does not know whose log its output ends up in.
"""

from __future__ import annotations

import re
from typing import Any, TextIO

# All that anybody ends a line with, as `str.splitlines` does; white space before `::` is skipped by
# who looks for it, and a byte order mark.
_ENDS = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_COMMAND = re.compile(rf"((?<![^{_ENDS}])(?:[^\S{_ENDS}]|\ufeff)*:):|(##\w{{0,20}})\[")


class LogLines:
    r"""A text stream in which `::` at the start of a line is `:\u003a`, and `##x[` is `##x\u005b`.

    In JSON the second is the same text, and the first cannot be. It has no `buffer`, so that
    nothing gets past it by chance.

    Attributes:
        stream: what it writes to.
        name: what an error of it names.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self.stream = stream
        self.name = name
        # As much of the line that is not ended as what follows may make a command of.
        self._begun = ""

    def write(self, text: str) -> int:
        """Write a text and return its length."""
        whole = self._begun + text
        if "::" in whole or "##" in whole:
            # What is replaced is the end of a command: never a part of what has been written.
            whole = _COMMAND.sub(_plain, whole)
        try:
            self.stream.write(whole[len(self._begun) :])
        except OSError as error:
            error.filename = self.name
            raise
        line = f"{whole}.".splitlines()[-1][:-1].replace("\ufeff", "").lstrip()
        self._begun = line if line in ("", ":") else "x" + line[-24:]
        return len(text)

    def flush(self) -> None:
        """Write what is not written yet."""
        try:
            self.stream.flush()
        except OSError as error:
            error.filename = self.name
            raise

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.stream, name)


def _plain(found: re.Match[str]) -> str:
    return f"{found[1]}\\u003a" if found[1] else f"{found[2]}\\u005b"
