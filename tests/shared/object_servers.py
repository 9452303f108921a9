"""Emulators of Google's and Azure's storage on the loopback interface.

They are looked up on PATH: ``fake-gcs-server`` (https://github.com/fsouza/fake-gcs-server) and
``azurite-blob`` (``npm install azurite``).
"""

import base64
import contextlib
import email.utils
import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
import urllib.request
from dataclasses import dataclass

from processes import free_port
from running_server import running

BUCKET = "tracekit-tests"

PROGRAMS = {"gs": "fake-gcs-server", "az": "azurite-blob"}
"""The program of each URL scheme."""


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """Environment variables of clients of a running server, and the secret in them, if any."""

    environment: dict[str, str]
    secret: str | None


@contextlib.contextmanager
def serving(scheme, folder):
    """Start the empty server of a URL scheme on a free port; stop it at the end."""
    program = shutil.which(PROGRAMS[scheme])
    if program is None:
        raise RuntimeError(f"the program {PROGRAMS[scheme]} is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    known = {}
    if scheme == "gs":
        command = [program, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"]
        command += ["-port", str(port), "-public-host", f"127.0.0.1:{port}", "-external-url", url]
        server = ObjectServer({"STORAGE_EMULATOR_HOST": url}, None)
    else:
        account, key = f"tk{secrets.token_hex(4)}", base64.b64encode(secrets.token_bytes(64))
        command = [program, "--inMemoryPersistence", "--blobPort", str(port)]
        command += ["--disableTelemetry", "--skipApiVersionCheck", "--silent"]
        known["AZURITE_ACCOUNTS"] = f"{account}:{key.decode()}"
        text = (
            f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key.decode()};"
            f"BlobEndpoint={url}/{account};"
        )
        server = ObjectServer({"AZURE_STORAGE_CONNECTION_STRING": text}, key.decode())

    def is_up():
        with socket.create_connection(("127.0.0.1", port), 5):
            return True

    with running(command, folder, {**os.environ, **known}, is_up):
        if scheme == "gs":
            named = json.dumps({"name": BUCKET}).encode()
            given = urllib.request.Request(f"{url}/storage/v1/b?project=p", data=named)
            given.add_header("Content-Type", "application/json")
        else:
            given = _new_container(f"{url}/{account}", account, key)
        urllib.request.urlopen(given, timeout=10).close()
        yield server


def _new_container(url, account, key):
    """Return the signed request that creates a container (Shared Key)."""
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    listed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    # In emulators, the account is also in the path.
    resource = f"/{account}/{account}/{BUCKET}\nrestype:container"
    signed = "PUT" + "\n" * 12 + listed + resource
    digest = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
    address = f"{url}/{BUCKET}?restype=container"
    return urllib.request.Request(address, headers=headers, method="PUT")
