"""Server-sent events: the payloads in a stream of bytes that is cut anywhere."""

from __future__ import annotations

LONGEST_EVENT_BYTES = 1 << 20
"""No engine's event comes near it; what is longer is an attack or no event stream."""


class SseReader:
    r"""Takes an answer as it arrives and gives the payload of each event that is complete.

    The end of a line may be `\n`, `\r\n` or `\r`; several `data` lines of an event are joined;
    comments (kept alive by them, TGI's) and other fields are left out. An event that ends with the
    stream and not with an empty line is complete too: `rest` gives it.
    """

    __slots__ = ("_data", "_data_bytes", "_line", "_line_bytes")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._line_bytes = 0
        self._data_bytes = 0

    def feed(self, packet: bytes) -> list[bytes]:
        """Return the payloads of the events that this packet completes.

        Raises:
            ValueError: an event or a line is longer than `LONGEST_EVENT_BYTES`.
        """
        self._line_bytes += len(packet)
        # Packets without the end of a line are only put aside: joining each would be quadratic.
        is_cut_end = bool(self._line) and self._line[-1].endswith(b"\r")
        if b"\n" not in packet and b"\r" not in packet and not is_cut_end:
            self._line.append(packet)
            self._check()
            return []
        text = b"".join((*self._line, packet)) if self._line else packet
        if b"\r" in text:
            # A lone \r at the very end may be the first half of \r\n: it waits for the next packet.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            text += held
        lines = text.split(b"\n")
        last = lines.pop()
        self._line = [last] if last else []
        payloads = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                self._data_bytes += len(line)
            elif not line and self._data:
                payloads.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
                self._data_bytes = 0
        self._line_bytes = len(last)
        self._check()
        return payloads

    def rest(self) -> list[bytes]:
        """Return the payload of an event that only the end of the stream has ended."""
        return self.feed(b"\n\n")

    def _check(self) -> None:
        if self._line_bytes + self._data_bytes > LONGEST_EVENT_BYTES:
            raise ValueError(f"an event has more than {LONGEST_EVENT_BYTES:,} bytes")
