"""Parses URLs and formats them without secrets."""

from __future__ import annotations

import re
import urllib.parse
from typing import NamedTuple

from tracekit.errors import UsageError

SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "https", "http")
"""Readable schemes. All except the last two are also writable. ``file://`` is a local path."""

WEB = frozenset({"https", "http"})

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
# Query parameters of a signed URL that do not identify the file.
_SIGNING = re.compile(
    r"x-amz-|x-goog-|(?:expires|se|sip|sks|ske|skoid|sktid|skt|skv|sp|spr|sr|st|sv)$"
)
_AZURE = frozenset({"az", "abfs", "abfss"})
_SHOWN_SCHEMES = "s3://, gs://, az://, abfs://, and https://"


class Url(NamedTuple):
    """Parts of a URL: ``scheme://place/key``, and ``?query`` for web servers.

    `place` is a bucket, container, or host, and may contain user and password; `key` is the text
    after the slash.
    """

    scheme: str
    place: str
    key: str
    query: str

    @property
    def text(self) -> str:
        """The complete URL with secrets, only for opening it."""
        return f"{self.root}{self.key}" + (f"?{self.query}" if self.query else "")

    @property
    def root(self) -> str:
        return f"{self.scheme}://{self.place}/"

    @property
    def shown(self) -> str:
        """The URL without user, password, query, and signature."""
        user, at, host = self.place.rpartition("@")
        if self.scheme in _AZURE and ":" not in user:
            # The user is a container: abfs://container@account.dfs.core.windows.net/…
            host = f"{user}{at}{host}"
        key = self.key
        if self.scheme not in WEB and "=" in (query := key.partition("?")[2]) and query:
            # Object keys do not end in a signature, but manually edited signed URLs may.
            key = key.partition("?")[0]
        return f"{self.scheme}://{host}/{key}"


def meaning_of(query: str) -> str:
    """Return the parts of a query that identify a file, without signatures."""
    from tracekit.redaction import is_signature_name

    return "&".join(
        pair
        for pair in query.split("&")
        if not is_signature_name(name := pair.partition("=")[0])
        and not _SIGNING.match(name.lower())
    )


def is_url(text: str) -> bool:
    match = _URL.match(text)
    return match is not None and match["scheme"].lower() != "file"


def local_part(text: str) -> str:
    """Return the path of a ``file://`` URL, and any other string unchanged."""
    match = _URL.match(text)
    if match is None or match["scheme"].lower() != "file":
        return text
    return urllib.parse.unquote(match["rest"].removeprefix("localhost"))


def parse(text: str) -> Url:
    match = _URL.match(text)
    if match is None:
        raise UsageError(f"{text}: not a URL")
    scheme = match["scheme"].lower()
    if scheme not in SCHEMES:
        raise UsageError(
            f"{scheme}://: unsupported URL scheme", hint=f"supported: {_SHOWN_SCHEMES}"
        )
    rest = match["rest"]
    query = ""
    if scheme in WEB:
        rest, _, query = rest.partition("#")[0].partition("?")
    place, _, key = rest.partition("/")
    url = Url(scheme, place, key, query)
    if not place.rpartition("@")[2]:
        raise UsageError(f"{url.shown}: the path is missing", hint=f"{scheme}://PLACE/NAME")
    if scheme not in WEB and ":" in place.rpartition("@")[0]:
        raise UsageError(
            f"{url.shown}: credentials in a URL are not supported", hint=CREDENTIALS[scheme]
        )
    return url


_OF_S3 = "use AWS_* variables or ~/.aws; set AWS_SKIP_SIGNATURE=true for anonymous access"
_OF_GOOGLE = (
    "use GOOGLE_APPLICATION_CREDENTIALS or gcloud; set GOOGLE_SKIP_SIGNATURE=true for "
    "anonymous access"
)

CREDENTIALS = {
    **dict.fromkeys(("s3", "s3a"), _OF_S3),
    **dict.fromkeys(("gs", "gcs"), _OF_GOOGLE),
    **dict.fromkeys(("az", "abfs", "abfss"), "use AZURE_STORAGE_* variables"),
    **dict.fromkeys(("https", "http"), "use a signed URL"),
}
