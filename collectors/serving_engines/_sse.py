"""Server-sent events: the payloads in a stream of bytes that is cut anywhere."""

from __future__ import annotations


class SseReader:
    r"""Takes an answer as it arrives and gives the payload of each event that is complete.

    The end of a line may be `\n`, `\r\n` or `\r`; several `data` lines of an event are joined;
    comments (kept alive by them, TGI's) and other fields are left out. An event that ends with the
    stream and not with an empty line is complete too: `rest` gives it.
    """

    __slots__ = ("_data", "_line")

    def __init__(self) -> None:
        self._line = b""
        self._data: list[bytes] = []

    def feed(self, packet: bytes) -> list[bytes]:
        """Return the payloads of the events that this packet completes."""
        text = self._line + packet if self._line else packet
        if b"\r" in text:
            # A lone \r at the very end may be the first half of \r\n: it waits for the next packet.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            text += held
        lines = text.split(b"\n")
        self._line = lines.pop()
        payloads = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and self._data:
                payloads.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
        return payloads

    def rest(self) -> list[bytes]:
        """Return the payload of an event that only the end of the stream has ended."""
        return self.feed(b"\n\n")
