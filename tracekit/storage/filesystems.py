"""The file systems of fsspec, one for each kind of place in this process."""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

from tracekit.errors import UsageError
from tracekit.storage.failures import as_os_error
from tracekit.storage.url import CREDENTIALS, Url

_LOCK = threading.Lock()
_MADE: dict[tuple[object, ...], Any] = {}


def filesystem(url: Url) -> Any:
    """Return the file system that reads a URL; made once in each process, for all its threads.

    Credentials, endpoints and regions are found by the library: in its environment variables, its
    files, and the configuration of fsspec.

    Raises:
        UsageError: the libraries are not installed.
        OSError: the file system cannot be made.
    """
    if url.scheme in ("gs", "gcs"):
        # What is being tried out asks two more things of each bucket, and complains on stderr where
        # it may not; who has set it gets it.
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        import fsspec

        kind = fsspec.get_filesystem_class(url.scheme)
    except ImportError:
        raise UsageError(
            f"{url.shown}: what reads URLs is not installed",
            hint="install it with: pip install '.[remote]'",
        ) from None
    # An Azure URL names its account.
    options = {
        name: value
        for name, value in kind._get_kwargs_from_urls(url.text).items()
        if name == "account_name"
    }
    # A file system does not survive fork().
    key = (os.getpid(), url.scheme, *options.values())
    with _LOCK:
        if key not in _MADE:
            try:
                # What others write must be seen; and fsspec keeps an instance for each thread.
                made = kind(use_listings_cache=False, skip_instance_cache=True, **options)
            except ValueError:
                # So adlfs says it, and of a connection string that is none.
                reason = f"no credentials that can be used: {CREDENTIALS[url.scheme]}"
                raise PermissionError(errno.EACCES, reason, url.shown) from None
            except Exception as error:  # noqa: BLE001 (the libraries raise whatever they like)
                raise as_os_error(error, url) from None
            if hasattr(made, "retries"):
                # The client below tries again, and so do we: three would multiply.
                made.retries = 1
            _MADE[key] = made
        return _MADE[key]


def _forget_parents() -> None:
    global _LOCK
    _LOCK = threading.Lock()
    _MADE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
