"""Local server for Perfetto's UI, which reads a trace from port 9001."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import BinaryIO
from urllib.parse import quote, unquote, urlsplit

from tracekit.errors import UsageError

LOOPBACK = "127.0.0.1"
UI = "https://ui.perfetto.dev"
PORT = 9001
"""The only local port that the content security policy of ui.perfetto.dev allows."""

_BLOCK_BYTES = 1 << 20
# Expand the tracks of ranks and devices, which the UI would show collapsed.
_STARTUP_COMMANDS = json.dumps(
    [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [r"^(rank \d|device .*|cpu|requests.*)$"]}]
)


def origin_of(ui: str) -> str:
    parts = urlsplit(ui)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"--ui: {ui!r} is not an address", hint=f"for example {UI}")
    return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def serving(trace: BinaryIO, title: str, ui: str = UI) -> Iterator[str]:
    """Serve a trace to pages of a Perfetto UI on this machine, until the block ends."""
    origin = origin_of(ui)
    secret = secrets.token_urlsafe(18)
    handler = _handler(trace, f"/{secret}/trace.pftrace", origin)
    try:
        server = _Server((LOOPBACK, PORT), handler)
    except OSError as error:
        raise UsageError(
            f"port {PORT} is not available: {error.strerror or error}",
            hint="Perfetto's UI reads local traces from that port only; "
            "tracekit export writes a file that the UI opens",
        ) from error
    query = (
        f"#!/?url=http://{LOOPBACK}:{PORT}/{secret}/trace.pftrace&title={quote(title, safe='')}"
        f"&startupCommands={quote(_STARTUP_COMMANDS, safe='')}"
    )
    thread = Thread(target=server.serve_forever, args=(0.1,), name="tracekit-view", daemon=True)
    thread.start()
    try:
        yield f"{ui.rstrip('/')}/{query}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that disconnects."""


def _handler(trace: BinaryIO, place: str, origin: str) -> type[BaseHTTPRequestHandler]:
    """Return the handler that serves the trace at `place` to pages of `origin` only."""
    descriptor = trace.fileno()
    size = os.fstat(descriptor).st_size

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "tracekit"
        sys_version = ""
        timeout = 60

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            # With another host name, the request may come from a page of another site.
            is_own = self.headers.get_all("Host") == [f"{LOOPBACK}:{PORT}"]
            if not is_own or self.headers.get("Origin") not in (None, origin):
                self._head(HTTPStatus.FORBIDDEN, 0)
            elif unquote(urlsplit(self.path).path) != place:
                self._head(HTTPStatus.NOT_FOUND, 0)
            else:
                self._head(HTTPStatus.OK, size)
                if with_body:
                    self._send_trace()

        def _head(self, status: HTTPStatus, length: int) -> None:
            self.send_response(status)
            if status != HTTPStatus.OK:
                self.close_connection = True
                self.send_header("Connection", "close")
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(length))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            if self.headers.get("Origin") == origin:
                self.send_header("Access-Control-Allow-Origin", origin)
            self.end_headers()

        def _send_trace(self) -> None:
            at = 0
            while block := os.pread(descriptor, _BLOCK_BYTES, at):
                self.wfile.write(block)
                at += len(block)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Do not log requests."""

        def log_error(self, *args: object) -> None:
            """Do not log broken connections."""

    return Handler
