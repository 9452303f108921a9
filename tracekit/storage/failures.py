"""What went wrong in a place behind a URL, as the error that a local disk would give.

What libraries say of a request may hold its headers, its URL with a signature, or what the server
echoed of either. So none of their words are passed on: only the kind of the error, the status and
the code that the server answered with.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from tracekit.errors import UsageError
from tracekit.storage.url import CREDENTIALS, Url

_DENIED = frozenset({401, 403, 407})
_MISSING = frozenset({404, 410})
_EXISTS = frozenset({412})
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 509, 529})
_PASSING_ERRNO = frozenset(
    {
        errno.EBUSY,
        errno.EAGAIN,
        errno.ETIMEDOUT,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.EIO,
        getattr(errno, "EREMOTEIO", errno.EIO),
    }
)
_DENIED_KINDS = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
        "SSOTokenLoadError",
        "ProfileNotFound",
        "DefaultCredentialsError",
        "RefreshError",
        "ClientAuthenticationError",
    }
)
_UNREACHABLE_KINDS = frozenset(
    {
        "ClientConnectorError",
        "ConnectionRefusedError",
        "ConnectTimeoutError",
        "EndpointConnectionError",
        "ServiceRequestError",
        "gaierror",
    }
)
# No name is known a moment later that was not; and the clients of stores have tried again.
_LASTING_KINDS = frozenset(
    {"ClientConnectorDNSError", "ConnectTimeoutError", "EndpointConnectionError", "gaierror"}
)
_PASSING_KINDS = frozenset(
    {
        "ClientConnectionError",
        "ClientOSError",
        "ClientPayloadError",
        "ConnectionClosedError",
        "FSTimeoutError",
        "HTTPClientError",
        "HttpProcessingError",
        "IncompleteRead",
        "IncompleteReadError",
        "ReadTimeoutError",
        "ResponseParserError",
        "ResponseStreamingError",
        "ServerDisconnectedError",
        "ServerTimeoutError",
        "ServiceResponseError",
        "SocketTimeoutError",
    }
)
_CODE = re.compile(r"[A-Z][A-Za-z]{2,60}")
_MOST_CAUSES = 6


class SaidError(OSError):
    """An error in our own words, which may be passed on as they are."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, reason)


class BrokenOffError(SaidError):
    """A stream ended before its end: what was missing may come the next time."""


def passes(error: BaseException) -> bool:
    """Tell whether the same request may go well a little later."""
    if isinstance(error, SaidError):
        return isinstance(error, BrokenOffError)
    status, _ = _answer(error)
    if status is not None:
        return status in _PASSING
    if isinstance(error, FileNotFoundError | PermissionError | FileExistsError | UsageError):
        return False
    kinds = _kinds(error)
    if kinds & _LASTING_KINDS:
        return False
    if kinds & (_PASSING_KINDS | _UNREACHABLE_KINDS):
        return True
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return isinstance(error, OSError) and error.errno in _PASSING_ERRNO


def is_missing(error: BaseException) -> bool:
    """Tell whether there is nothing at the place."""
    return isinstance(error, FileNotFoundError) or _answer(error)[0] in _MISSING


def as_os_error(error: BaseException, url: Url) -> OSError:
    """Return the error that a disk would give, with the shown URL as its file name.

    Returns:
        `FileNotFoundError`, `PermissionError`, `FileExistsError`, `TimeoutError`, or `OSError`,
        whose `strerror` is the reason in words, and which remembers nothing of the error that it
        stands for.
    """
    if isinstance(error, SaidError):
        return OSError(errno.EIO, error.strerror, url.shown)
    status, code = _answer(error)
    kinds = _kinds(error)
    named = f" ({code})" if code else ""
    shown = url.shown
    if is_missing(error):
        what = "no such bucket" if code == "NoSuchBucket" else "no such file or folder"
        return FileNotFoundError(errno.ENOENT, what, shown)
    if isinstance(error, PermissionError) or status in _DENIED or kinds & _DENIED_KINDS:
        reason = f"access is denied{named}; credentials: {CREDENTIALS[url.scheme]}"
        return PermissionError(errno.EACCES, reason, shown)
    if isinstance(error, FileExistsError) or status in _EXISTS:
        return FileExistsError(errno.EEXIST, "exists already", shown)
    if kinds & _UNREACHABLE_KINDS:
        return OSError(errno.EHOSTUNREACH, "the server cannot be reached", shown)
    if status is not None:
        return OSError(errno.EIO, f"the server answers {status}{named}", shown)
    if isinstance(error, TimeoutError) or "FSTimeoutError" in kinds:
        return TimeoutError(errno.ETIMEDOUT, "the server did not answer in time", shown)
    if kinds & _PASSING_KINDS or isinstance(error, ConnectionError):
        return OSError(errno.EIO, "the connection broke off, again and again", shown)
    if isinstance(error, OSError) and error.errno:
        return OSError(error.errno, f"{os.strerror(error.errno)}{named}", shown)
    return OSError(
        errno.EIO, f"failed ({type(error).__name__}); credentials: {CREDENTIALS[url.scheme]}", shown
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was made of, the outermost first."""
    at: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if at is None:
            return
        yield at
        at = at.__cause__ or at.__context__


def _kinds(error: BaseException) -> set[str]:
    return {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}


def _answer(error: BaseException) -> tuple[int | None, str | None]:
    """Return the status and the error code that a server answered with, as far as there are any."""
    for cause in _causes(error):
        if any(kind.__name__ == "HttpProcessingError" for kind in type(cause).__mro__):
            # aiohttp says 400 of a body that breaks off, whatever the server answered.
            continue
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            metadata, said = response.get("ResponseMetadata"), response.get("Error")
            status = metadata.get("HTTPStatusCode") if isinstance(metadata, dict) else None
            code = said.get("Code") if isinstance(said, dict) else None
            return _status(status), _plain(code)
        for name in ("status", "status_code", "code"):
            status = _status(getattr(cause, name, None))
            if status is not None:
                return status, _plain(getattr(cause, "error_code", None))
    return None, None


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and 300 <= value < 600 else None


def _plain(code: object) -> str | None:
    """Return an error code if it looks like one: it comes from the server."""
    text = getattr(code, "value", code)
    return text if isinstance(text, str) and _CODE.fullmatch(text) else None
