"""Follows the brackets of a JSON text that comes piece by piece.

It tells whether a place is a member of something deeper than the outermost object. What it has read
is never read again, so a text with any number of such places is read once.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH = 900
"""Deeper texts are taken for damaged, as by the parser that reads them in the end."""

_TOKEN = re.compile(
    rb'[ \t\r\n]+|"(?:[^"\\\x00-\x1f]|\\.)*+"|[{}\[\]:,]'
    rb"|(?:-?\d[\d.eE+-]*|true|false|null)(?![\w.+-])",
    re.DOTALL,
)

_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _NEXT, _DONE = range(7)
_AFTER_OPENING: Final = {b"{": _KEY_OR_END, b"[": _VALUE_OR_END}
_CLOSER: Final = {b"{": b"}"[0], b"[": b"]"[0]}


class Nesting:
    """Where in a JSON text one is.

    Attributes:
        is_broken: the text so far is no beginning of a JSON text.
    """

    def __init__(self) -> None:
        self._closers = bytearray()
        self._expected = _VALUE
        self._rest = b""
        self.is_broken = False

    def copy(self) -> Nesting:
        """Return another one that stands at the same place."""
        other = Nesting()
        other._closers = self._closers[:]
        other._expected, other._rest = self._expected, self._rest
        other.is_broken = self.is_broken
        return other

    @property
    def is_in_inner_object(self) -> bool:
        """Whether a member of an object inside of the outermost one may stand here.

        Only where the brackets prove it: nothing can be said behind damage.
        """
        return (
            not self.is_broken
            and not self._rest
            and self._expected in (_KEY, _KEY_OR_END)
            and len(self._closers) > 1
        )

    def feed(self, text: bytes | bytearray) -> None:
        """Read on."""
        if self.is_broken:
            return
        was_cut_off = bool(self._rest)
        text = self._rest + text if was_cut_off else text
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                break
            if not self._take(token.group()):
                self.is_broken, self._rest = True, b""
                return
            at = token.end()
        # A token may be cut off at the end of what there is, but not for ever.
        self._rest = bytes(text[at:])
        if self._rest and (was_cut_off or not self._rest.startswith(b'"')):
            self.is_broken, self._rest = True, b""

    def _take(self, token: bytes | bytearray) -> bool:
        """Go one token further; False where it cannot stand."""
        first = token[:1]
        expected = self._expected
        if first in b" \t\r\n":
            return True
        if first == b'"' and expected in (_KEY, _KEY_OR_END):
            self._expected = _COLON
            return True
        if first == b":" and expected == _COLON:
            self._expected = _VALUE
            return True
        if first == b"," and expected == _NEXT:
            self._expected = _KEY if self._closers[-1] == b"}"[0] else _VALUE
            return True
        if first in b"}]":
            may_end = expected == _NEXT or (
                expected == (_KEY_OR_END if first == b"}" else _VALUE_OR_END)
            )
            if not may_end or not self._closers or self._closers.pop() != first[0]:
                return False
            self._expected = _NEXT if self._closers else _DONE
            return True
        if expected not in (_VALUE, _VALUE_OR_END) or first in b":,":
            return False
        if first in b"{[":
            self._closers.append(_CLOSER[bytes(first)])
            self._expected = _AFTER_OPENING[bytes(first)]
            return len(self._closers) <= MAX_DEPTH
        self._expected = _NEXT if self._closers else _DONE
        return True
