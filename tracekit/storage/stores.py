"""obstore clients for object stores and web servers, whose errors are converted to `OSError`.

obstore's errors contain signed URLs and text from the server. tracekit's messages contain only the
status and error code.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from tracekit.errors import UsageError
from tracekit.storage.url import CREDENTIALS, WEB, Url

T = TypeVar("T")

LIMIT_S = 3600.0
"""Time limit for one file, from the first request to the last byte, in seconds.
TRACEKIT_URL_LIMIT_S overrides it."""

RETRIES = 5
FIRST_WAIT_S = 0.25
MAX_WAIT_S = 4.0
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
_POLL_S = 0.05

_LOCK = threading.Lock()
_STORES: dict[tuple[object, ...], Any] = {}
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Z][A-Za-z]{2,60})</Code>")
_DENIED = frozenset({401, 403, 407})
_NO_CREDENTIALS = re.compile(
    r"source: (?:TokenRequest|MissingAccount|InvalidAccessKey)|//169\.254\."
)


def limit_s() -> float:
    text = os.environ.get("TRACEKIT_URL_LIMIT_S", "")
    return float(text) if text.isdecimal() else LIMIT_S


def beyond_limit(shown: str) -> OSError:
    reason = f"not complete after {limit_s():g} s; set TRACEKIT_URL_LIMIT_S to wait longer"
    return OSError(errno.EIO, reason, shown)


def missing_extra(shown: str) -> UsageError:
    """Return the error for the missing package that URLs need."""
    return UsageError(
        f"{shown}: reading URLs needs the extra 'remote'",
        hint="install it with: pip install '.[remote]'",
    )


def store_of(url: Url) -> Any:
    """Return the client for a URL: one per bucket and process, or one per file of a web server."""
    if url.scheme in WEB:
        # The complete URL is the root, so that path and query are unchanged.
        return _connect(url)
    key = (url.scheme, url.place, limit_s())
    with _LOCK:
        if key not in _STORES:
            _STORES[key] = _connect(url)
        return _STORES[key]


def _connect(url: Url) -> Any:
    limit = timedelta(seconds=limit_s())
    options = {
        "client_options": {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
            "read_timeout": timedelta(seconds=READ_TIMEOUT_S),
            "timeout": limit,
        },
        "retry_config": {
            "max_retries": RETRIES,
            "retry_timeout": min(limit, timedelta(seconds=READ_TIMEOUT_S)),
            "backoff": {
                "init_backoff": timedelta(seconds=FIRST_WAIT_S),
                "max_backoff": timedelta(seconds=MAX_WAIT_S),
                "base": 2,
            },
        },
    }
    try:
        from obstore import store

        if url.scheme in WEB:
            return store.HTTPStore.from_url(url.text, **options)
        if url.scheme in ("s3", "s3a"):
            return store.S3Store(url.place, **_s3_settings(), **options)
        if url.scheme in ("gs", "gcs"):
            emulator = os.environ.get("STORAGE_EMULATOR_HOST")
            google = {"base_url": emulator, "skip_signature": True} if emulator else {}
            return store.GCSStore(url.place, **google, **options)
        container, _, host = url.place.partition("@")
        return store.AzureStore(container, **_azure_settings(host), **options)
    except ImportError:
        raise missing_extra(url.shown) from None
    except Exception as error:  # noqa: BLE001 (of botocore and obstore, whatever they raise)
        raise as_os_error(error, url) from None


def _s3_settings() -> dict[str, Any]:
    """Return credentials, region, and endpoint as in botocore, including ``~/.aws``."""
    if os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true"):
        return {}
    import botocore.session

    session = botocore.session.Session()
    credentials = session.get_credentials()
    if credentials is None:
        raise PermissionError

    def current() -> dict[str, Any]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + timedelta(minutes=15),
        }

    options = {
        "region": session.get_config_variable("region"),
        "endpoint": os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or session.get_scoped_config().get("endpoint_url"),
    }
    settings: dict[str, Any] = {name: value for name, value in options.items() if value}
    return {**settings, "credential_provider": current}


def _azure_settings(host: str) -> dict[str, Any]:
    """Return settings that obstore does not read: from the URL and the connection string."""
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    account = host.partition(".")[0] or parts.get("AccountName")
    if text and not account:
        raise PermissionError
    named = {
        "account_name": account,
        "account_key": parts.get("AccountKey"),
        "sas_key": parts.get("SharedAccessSignature"),
        "endpoint": parts.get("BlobEndpoint", "").rstrip("/"),
    }
    return {name: value for name, value in named.items() if value}


def request(url: Url, ask: Callable[[Any], T]) -> T:
    """Send a request, which obstore retries after temporary failures."""
    begin = time.monotonic()
    store = store_of(url)
    try:
        return interruptibly(lambda: ask(store))
    except Exception as error:
        if isinstance(error, OSError) and error.filename == url.shown:
            raise
        if time.monotonic() - begin >= limit_s():
            raise beyond_limit(url.shown) from None
        # Drop the cause, which may contain headers and signatures.
        raise as_os_error(error, url) from None


def interruptibly(work: Callable[[], T]) -> T:
    """Run a blocking call so that Ctrl-C interrupts the wait.

    obstore does not handle Ctrl-C. After Ctrl-C, the call continues in a thread until its time
    limit.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 (raised when the result is requested)
            future.set_exception(error)

    threading.Thread(target=run, name="tracekit-request", daemon=True).start()
    while not wait([future], _POLL_S).done:
        pass
    return future.result()


def is_missing(error: BaseException) -> bool:
    return isinstance(error, FileNotFoundError) or _status_and_code(str(error))[0] in (404, 410)


def as_os_error(error: BaseException, url: Url) -> OSError:
    """Convert an error to an `OSError` whose file name is the URL without secrets."""
    kind, text, shown = type(error).__name__, str(error), url.shown
    status, code = _status_and_code(text)
    named = f" ({code})" if code else ""
    if is_missing(error):
        what = "no such bucket" if code == "NoSuchBucket" else "no such file or folder"
        return FileNotFoundError(errno.ENOENT, what, shown)
    if (
        isinstance(error, PermissionError)
        or kind in ("PermissionDeniedError", "UnauthenticatedError")
        or status in _DENIED
        or "Credential" in kind
        or "Profile" in kind
        or _NO_CREDENTIALS.search(text)
    ):
        reason = f"access is denied{named}; credentials: {CREDENTIALS[url.scheme]}"
        return PermissionError(errno.EACCES, reason, shown)
    if kind in ("AlreadyExistsError", "PreconditionError"):
        return FileExistsError(errno.EEXIST, "exists already", shown)
    if url.scheme in ("s3", "s3a") and ("BareRedirect" in text or status == 301):
        return OSError(errno.EIO, "the bucket is in another region: set AWS_REGION", shown)
    if "kind: Connect" in text:
        return OSError(errno.EHOSTUNREACH, "the server cannot be reached", shown)
    if "kind: Timeout" in text or isinstance(error, TimeoutError):
        return TimeoutError(errno.ETIMEDOUT, "the server did not answer in time", shown)
    if status is not None:
        return OSError(errno.EIO, f"the server answered {status}{named}", shown)
    if "kind: Interrupted" in text or isinstance(error, ConnectionError):
        return OSError(errno.EIO, "the connection failed repeatedly", shown)
    if "source: Header" in text or "CONTENT_RANGE" in text:
        return OSError(errno.EIO, "the server sent an invalid header", shown)
    if isinstance(error, ValueError):
        reason = "invalid URL: check its host, port, and path"
        return OSError(errno.EINVAL, reason, shown)
    if isinstance(error, OSError) and error.errno:
        return OSError(error.errno, os.strerror(error.errno), shown)
    return OSError(errno.EIO, f"the request failed ({kind})", shown)


def _status_and_code(text: str) -> tuple[int | None, str | None]:
    status, code = _STATUS.search(text), _CODE.search(text)
    return status and int(status[1]), code and code[1]
