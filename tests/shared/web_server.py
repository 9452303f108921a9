"""A misbehaving web server on the loopback interface."""

import contextlib
import hashlib
import re
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class WebServer:
    """Files of the server, its faults, and the requests that it received.

    Attributes:
        url: address with a trailing slash.
        files: contents by path.
        has_ranges: support range requests.
        has_tags: send an ETag.
        break_after_bytes: disconnect after this part of a body, `break_count` times.
        drip_s: seconds between two bytes of a body.
        is_endless: repeat the file without an end.
        has_length: send a Content-Length.
        more: additional headers, which replace headers of the same name.
        kind: Content-Type header.
        failures: statuses of the next responses.
        requests: path of each request, with its Range or None.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    has_ranges: bool = True
    has_tags: bool = True
    break_after_bytes: int | None = None
    break_count: int = 0
    drip_s: float | None = None
    is_endless: bool = False
    has_length: bool = True
    more: dict[str, str] = field(default_factory=dict)
    kind: str = "application/octet-stream"
    failures: list[int] = field(default_factory=list)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def serving():
    """Serve until the block ends."""
    state = WebServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            _answer(self, state)

        def do_HEAD(self):
            _answer(self, state)

        def log_message(self, format, *args):  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            # A client may disconnect at any time.
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        state.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(request, state):
    path = request.path.lstrip("/").partition("?")[0]
    range_header = request.headers.get("Range")
    state.requests.append((request.path, range_header))
    if state.failures:
        _send(request, state.failures.pop(0), b"busy")
        return
    data = state.files.get(path)
    if data is None and (path.endswith("/") or not path):
        names = sorted(name for name in state.files if name.startswith(path))
        page = "".join(f'<a href="/{name}">{name}</a>\n' for name in names)
        _send(request, 200, page.encode(), {"Content-Type": "text/html"})
        return
    if data is None:
        _send(request, 404, b"")
        return
    headers = {"Content-Type": state.kind}
    if state.has_tags:
        headers["ETag"] = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    if request.command == "HEAD":
        _send(request, 200, b"", {**headers, "Content-Length": str(len(data))})
        return
    if state.is_endless or state.drip_s is not None or not state.has_length:
        _send_on(request, data, headers, state)
        return
    status, body = 200, data
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", range_header or "")
    if wanted is not None and state.has_ranges:
        start = int(wanted[1])
        if start >= len(data):
            _send(request, 416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        end = min(int(wanted[2]) + 1, len(data)) if wanted[2] else len(data)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        status, body = 206, data[start:end]
    headers |= state.more
    breaks = state.break_after_bytes is not None and len(body) > state.break_after_bytes
    _send(request, status, body, headers, state if breaks and state.break_count else None)


def _send_on(request, data, headers, state):
    """Send a body without a length until the client or the server ends."""
    with contextlib.suppress(OSError):
        request.send_response(200)
        if state.has_length and not state.is_endless:
            headers["Content-Length"] = str(len(data))
        for name, value in {**headers, "Connection": "close"}.items():
            request.send_header(name, value)
        request.end_headers()
        request.close_connection = True
        while not state.ended.is_set():
            if state.drip_s is None:
                request.wfile.write(data)
            else:
                for at in range(len(data)):
                    request.wfile.write(data[at : at + 1])
                    if state.ended.wait(state.drip_s):
                        return
            if not state.is_endless:
                return


def _send(request, status, body, headers=None, breaking=None):
    with contextlib.suppress(OSError):
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        if breaking is not None:
            breaking.break_count -= 1
            request.wfile.write(body[: breaking.break_after_bytes])
            request.close_connection = True
        else:
            request.wfile.write(body)
