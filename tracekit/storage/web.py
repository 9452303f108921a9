"""Web server requests that obstore does not support: folder pages, and files of unknown length."""

from __future__ import annotations

import base64
import errno
import html
import io
import re
import urllib.error
import urllib.request
from urllib.parse import unquote, urldefrag, urljoin

from tracekit.storage.stores import READ_TIMEOUT_S, as_os_error
from tracekit.storage.stream import RemoteStream, Response, without_start
from tracekit.storage.url import Url
from tracekit.units import MB

PAGE_BYTES = 32 * MB
"""Maximum size of a folder page, which is enough for a few hundred thousand links."""

CHUNK_BYTES = 1 << 18

# Every quote ends at the next one, so matching takes linear time.
_LINK = re.compile(r"""\bhref\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)')""", re.IGNORECASE)


def get(url: Url, start: int = 0) -> Response:
    """Request a file of unknown size, starting at an offset."""
    user, _, host = url.place.rpartition("@")
    address = url._replace(place=host).text
    request = urllib.request.Request(address, headers={"Accept-Encoding": "identity"})
    if user:
        encoded = base64.b64encode(unquote(user).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    try:
        answer = urllib.request.urlopen(request, timeout=READ_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        raise as_os_error(OSError(f"status code: {error.code}"), url) from None
    except urllib.error.URLError as error:
        kind = "Timeout" if isinstance(error.reason, TimeoutError) else "Connect"
        raise as_os_error(OSError(f"kind: {kind}"), url) from None
    except ValueError:
        raise OSError(errno.EINVAL, "invalid URL", url.shown) from None
    kind = answer.headers.get("Content-Type", "text/html")
    tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
    chunks = iter(lambda: answer.read1(CHUNK_BYTES), b"")
    return Response(without_start(chunks, start), None, tag, kind, answer.close)


def links(url: Url, stream: RemoteStream) -> list[str]:
    """Return the links of a folder page to URLs below the folder, in page order."""
    if not stream.response.content_type.startswith("text/html"):
        return []
    page = io.BufferedReader(stream).read(PAGE_BYTES + 1)
    if len(page) > PAGE_BYTES:
        raise OSError(errno.EFBIG, f"the page is longer than {PAGE_BYTES:,} bytes", url.shown)
    folder = url._replace(query="").text
    result: dict[str, None] = {}
    for match in _LINK.finditer(page.decode("utf-8", "ignore")):
        try:
            link = urldefrag(urljoin(folder, html.unescape(match[1] or match[2] or "")))[0]
        except ValueError:
            continue
        if link.startswith(folder) and "?" not in link and len(link) > len(folder):
            result[link] = None
    return [*result]
