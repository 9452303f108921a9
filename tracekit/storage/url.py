"""The parts of a URL, and how it may be shown."""

from __future__ import annotations

import re
import urllib.parse
from typing import NamedTuple

from tracekit.errors import UsageError

SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "https", "http")
"""What can be read; ``file://`` is a local path. All but the last two can be written, too."""

WEB = frozenset({"https", "http"})

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
# What else stands in a signed URL.
_SIGNING = re.compile(
    r"x-amz-|x-goog-|(?:expires|se|sip|sks|ske|skoid|sktid|skt|skv|sp|spr|sr|st|sv)$"
)
_AZURE = frozenset({"az", "abfs", "abfss"})
_SHOWN_SCHEMES = "s3://, gs://, az://, abfs://, and https://"


class Url(NamedTuple):
    """A URL in parts: ``scheme://place/key`` and, of the web, ``?query``.

    `place` is a bucket, a container or a host, and may hold a user and a password; `key` is what
    comes behind the slash, as it is written.
    """

    scheme: str
    place: str
    key: str
    query: str

    @property
    def text(self) -> str:
        """The whole URL, secrets included: for who opens it, and nobody else."""
        return f"{self.root}{self.key}" + (f"?{self.query}" if self.query else "")

    @property
    def root(self) -> str:
        """Everything before the key."""
        return f"{self.scheme}://{self.place}/"

    @property
    def shown(self) -> str:
        """The URL without user, password, query and signature."""
        user, at, host = self.place.rpartition("@")
        if self.scheme in _AZURE and ":" not in user:
            # A container: abfs://container@account.dfs.core.windows.net/…
            host = f"{user}{at}{host}"
        key = self.key
        if self.scheme not in WEB and "=" in (query := key.partition("?")[2]) and query:
            # No key of an object ends in one; a URL that was signed and changed by hand does.
            key = key.partition("?")[0]
        return f"{self.scheme}://{host}/{key}"


def meaning_of(query: str) -> str:
    """Return what of a query tells one file from another: all but signatures and their like."""
    from tracekit.redaction import is_signature_name

    return "&".join(
        pair
        for pair in query.split("&")
        if not is_signature_name(name := pair.partition("=")[0])
        and not _SIGNING.match(name.lower())
    )


def is_url(text: str) -> bool:
    """Tell whether a text is a URL and no local path."""
    found = _URL.match(text)
    return found is not None and found["scheme"].lower() != "file"


def local_part(text: str) -> str:
    """Return the path of a ``file://`` URL; any other text as it is."""
    found = _URL.match(text)
    if found is None or found["scheme"].lower() != "file":
        return text
    return urllib.parse.unquote(found["rest"].removeprefix("localhost"))


def parse(text: str) -> Url:
    """Take a URL apart.

    Raises:
        UsageError: it is of a kind that is not read, names no place, or holds credentials where
            those are not looked for.
    """
    found = _URL.match(text)
    if found is None:
        raise UsageError(f"{text}: not a URL")
    scheme = found["scheme"].lower()
    if scheme not in SCHEMES:
        raise UsageError(
            f"{scheme}://: unsupported URL scheme", hint=f"supported: {_SHOWN_SCHEMES}"
        )
    rest = found["rest"]
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
"""Where each kind of place gets its credentials from."""
